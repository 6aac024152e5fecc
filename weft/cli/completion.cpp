#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "weft/base/shipped_files.h"
#include "weft/cli/command_table.h"
#include "weft/recipe/read/recipe_keys.h"

namespace weft {

namespace {

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : shown_options(command)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool takes_recipe(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_name(true) == "recipe") return true;
  }
  return false;
}

/// Adds, for a command and its subcommands, the paths ("/checkpoint/list") and the words that each offers.
void add_cases(const CLI::App& command, const std::string& path, std::vector<std::string>& paths, std::string& cases) {
  std::vector<std::string> names;
  for (const CLI::App* below : shown_commands(command)) {
    names.push_back(below->get_name());
    paths.push_back(path + "/" + below->get_name());
  }
  cases += fmt::format("    '{}') words='{}' options='{}' recipe={} ;;\n", path, fmt::join(names, " "),
                       fmt::join(options_of(command), " "), takes_recipe(command) ? "yes" : "");
  for (const CLI::App* below : shown_commands(command)) add_cases(*below, path + "/" + below->get_name(), paths, cases);
}

std::string key_words() {
  Recipe recipe;
  std::string words;
  for (const FileKey& key : recipe_keys(recipe))
    words += fmt::format("{}{}.{}=", words.empty() ? "" : " ", key.section, key.name);
  return words;
}

/// Returns the function _weft_words, which works in bash and in zsh's bash mode.
std::string word_function(const CLI::App& app) {
  std::vector<std::string> paths;
  std::string cases;
  add_cases(app, "", paths, cases);
  return fmt::format(R"(_weft_words() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} place= word words= options= recipe=
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word != -- ]] || return 0 # the user's program and its arguments
    case "$place/$word" in
    {}) place=$place/$word ;;
    esac
  done
  case "$place" in
{}  esac
  case "$before" in
  --set)
    compopt -o nospace 2>/dev/null
    words='{}' ;;
  --hardware) words='{}' ;;
  *)
    [[ -z $recipe || $before == -* ]] || words='{}'
    [[ $current != -* ]] || words=$options ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
)",
                     fmt::join(paths, " | "), cases, key_words(), fmt::join(shipped_names("hardware"), " "),
                     fmt::join(shipped_names("recipes"), " "));
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  return "# Completion of weft's command line in bash; made by: weft completion bash\n" + word_function(app) +
         "complete -o default -F _weft_words weft\n";
}

std::string zsh_completion(const CLI::App& app) {
  return "#compdef weft\n# Completion of weft's command line in zsh; made by: weft completion zsh\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         word_function(app) + "_bash_complete -o default -F _weft_words\n";
}

}  // namespace weft
