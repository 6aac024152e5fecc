// edited_toml: single values of a file's text.
#include "weft/recipe/toml/toml_edit.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::toml_edit_test {
namespace {

struct Case {
  const char* what;
  const char* text;
  std::vector<TomlEdit> edits;
  const char* expected;
};

const std::vector<Case> kCases = {
    {"a value of an inline table",
     "layout = { dp = 1, tp = 2 }  # mesh\n",
     {{"layout.tp", "4"}},
     "layout = { dp = 1, tp = 4 }  # mesh\n"},
    {"a new key of an inline table",
     "layout = { dp = 1 }  # mesh\n",
     {{"layout.tp", "4"}},
     "layout = { dp = 1, tp = 4 }  # mesh\n"},
    {"an empty inline table", "layout = {}\n", {{"layout.tp", "4"}}, "layout = { tp = 4 }\n"},
    {"a word in place of a table",
     "layout = \"auto\"  # search\n",
     {{"layout.tp", "4"}, {"layout.pp", "2"}},
     "layout = { tp = 4, pp = 2 }  # search\n"},
    {"a value below a header",
     "[layout] # mesh\ntp = 2 # ranks\ndp = 1\n",
     {{"layout.tp", "4"}},
     "[layout] # mesh\ntp = 4 # ranks\ndp = 1\n"},
    {"a new key below a header, before a blank and the next header",
     "[layout]\ndp = 1 # replicas\n\n# samples\n[batch]\nglobal = 8\n",
     {{"layout.tp", "4"}},
     "[layout]\ndp = 1 # replicas\ntp = 4\n\n# samples\n[batch]\nglobal = 8\n"},
    {"a header without keys, at the end", "[layout]", {{"layout.tp", "4"}}, "[layout]\ntp = 4"},
    {"a header whose section goes on below another",
     "[optimizer]\nlr = 1.0\n[[optimizer.groups]]\nnames = \"a\"\n",
     {{"optimizer.clip", "2.0"}},
     "[optimizer]\nlr = 1.0\nclip = 2.0\n[[optimizer.groups]]\nnames = \"a\"\n"},
    {"dotted keys",
     "layout.dp = 1\nrun.steps = 2\n",
     {{"layout.tp", "4"}, {"run.steps", "3"}},
     "layout.dp = 1\nlayout.tp = 4\nrun.steps = 3\n"},
    {"no such section, all inline",
     "run = { steps = 2 }",
     {{"layout.tp", "4"}, {"layout.schedule", "\"zb-h1\""}},
     "run = { steps = 2 }\nlayout = { tp = 4, schedule = \"zb-h1\" }\n"},
    {"no such section, with headers",
     "[run]\nsteps = 2\n",
     {{"layout.tp", "4"}, {"layout.pp", "2"}},
     "[run]\nsteps = 2\n\n[layout]\ntp = 4\npp = 2\n"},
    {"an entry of a list",
     "[[data.mix]]\npath = \"é\" # first\n[[data.mix]]\npath = \"b\"\n",
     {{"data.mix.1.path", "\"c\""}, {"data.mix.1.weight", "2"}, {"data.mix.2.weight", "3"}},
     "[[data.mix]]\npath = \"c\" # first\nweight = 2\n[[data.mix]]\npath = \"b\"\nweight = 3\n"},
    {"after characters of several bytes",
     "run = { name = \"größe 名\", steps = 2 }  # é\n",
     {{"run.steps", "30"}},
     "run = { name = \"größe 名\", steps = 30 }  # é\n"},
    {"after a text of several lines",
     "[run]\nname = '''\na\nb'''\nsteps = 2\n",
     {{"run.steps", "30"}, {"run.name", "\"c\""}},
     "[run]\nname = \"c\"\nsteps = 30\n"},
    {"a removed first, middle, last and only key",
     "a = { x = 1, y = 2, z = 3 }\nb = { x = 1 , y = 2 }\nc = { x = 1 }\n",
     {{"a.x", {}}, {"a.y", {}}, {"b.y", {}}, {"c.x", {}}, {"d.x", {}}, {"a.w", {}}},
     "a = { z = 3 }\nb = { x = 1 }\nc = {  }\n"},
    {"a removed line", "[run]\nsteps = 2 # two\nepochs = 3", {{"run.steps", {}}}, "[run]\nepochs = 3"},
    {"lines that end as on Windows",
     "[run]\r\nsteps = 2\r\n",
     {{"run.steps", "30"}, {"run.seed", "1"}},
     "[run]\r\nsteps = 30\r\nseed = 1\n"},
};

TEST(EditedToml, ChangesValuesAlone) {
  for (const Case& c : kCases) EXPECT_EQ(edited_toml(c.text, "r.toml", c.edits), c.expected) << c.what;
}

TEST(EditedToml, RefusesWhatItCannotPlace) {
  const auto error_of = [](const char* text, const TomlEdit& edit) -> std::string {
    try {
      edited_toml(text, "r.toml", {edit});
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("[[data.mix]]\npath = 1\n", {"data.mix.2.path", "2"}),
            "r.toml: cannot change data.mix.2.path in this file; set 2 for it by hand");
  EXPECT_EQ(error_of("a = ", {"a.b", "2"}).substr(0, 11), "r.toml:1:5:");
}

}  // namespace
}  // namespace weft::toml_edit_test
