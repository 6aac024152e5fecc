#include "weft/base/host_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;

TEST(HostList, Expands) {
  struct Case {
    std::string text;
    Names hosts;
  };
  const Case cases[] = {
      {"n1", {"n1"}},
      {"localhost", {"localhost"}},
      {"n1,n3", {"n1", "n3"}},
      {"n[1-3]", {"n1", "n2", "n3"}},
      {"n[1-2,7],gpu-x", {"n1", "n2", "n7", "gpu-x"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"n[001,1]", {"n001", "n1"}},
      {"rack[0-1]n[0-1]", {"rack0n0", "rack0n1", "rack1n0", "rack1n1"}},
      {"gpu[1-2].cluster.org", {"gpu1.cluster.org", "gpu2.cluster.org"}},
      {"a_b-[1]", {"a_b-1"}},
      {"n2,n1,n2", {"n2", "n1", "n2"}},
      {"n[18446744073709551614-18446744073709551615]", {"n18446744073709551614", "n18446744073709551615"}},
      {"[1-2]", {"1", "2"}},
  };
  for (const Case& test : cases) EXPECT_EQ(expand_host_list("NODES", test.text), test.hosts) << test.text;
  EXPECT_EQ(expand_host_list("NODES", "n[1-4096]").back(), "n4096");
}

TEST(HostList, RefusesMalformedLists) {
  struct Case {
    std::string text, why;
  };
  const Case cases[] = {
      {"", "an empty entry"},
      {"n1,", "an empty entry"},
      {"n1,,n2", "an empty entry"},
      {"n[1-2", "a '[' without its ']'"},
      {"n1-2]", "a ']' without its '['"},
      {"n[[1-2]]", "nested brackets"},
      {"n[]", "'' is not a number or range"},
      {"n[1,]", "'' is not a number or range"},
      {"n[1-]", "'1-' is not a number or range"},
      {"n[a-b]", "'a-b' is not a number or range"},
      {"n[1-2-3]", "'1-2-3' is not a number or range"},
      {"bgp[000x133]", "'000x133' is not a number or range"},
      {"n[3-1]", "'3-1' runs backwards"},
      {"n[1-99999999999]", "more than 262144 hosts"},
      {"n[0-18446744073709551615]", "more than 262144 hosts"},
      {"a[1-600]b[1-600]", "more than 262144 hosts"},
      {"a[1-200000],b[1-200000]", "more than 262144 hosts"},
      {"n[1-99999999999999999999]", "is too large"},
      {"n 1", "' ' is not allowed in a host name"},
      {"n1;reboot", "';' is not allowed in a host name"},
      {"n\n", "'\\n' is not allowed in a host name"},
      {"2(x3)", "'(' is not allowed in a host name"},
  };
  for (const Case& test : cases) {
    try {
      expand_host_list("NODES", test.text);
      ADD_FAILURE() << test.text;
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("NODES=\"", 0), 0U) << text;
      EXPECT_NE(text.find(test.why), std::string::npos) << text;
    }
  }
}

TEST(HostList, ExpandsTaskCounts) {
  using Counts = std::vector<int>;
  EXPECT_EQ(expand_counts("TASKS", "2"), (Counts{2}));
  EXPECT_EQ(expand_counts("TASKS", "2(x3),1"), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(expand_counts("TASKS", "3,1"), (Counts{3, 1}));
  EXPECT_EQ(expand_counts("TASKS", "16(x1),4(x2)"), (Counts{16, 4, 4}));
  for (const std::string damaged : {"", "0", "-1", "2,", "2(x)", "2(x0)", "2(x-1)", "2(3)", "2(x3", "(x3)", "2(x3)1", "two",
                                    "2[x3]", "1(x99999999999)", "1(x2000000000)", "99999999999"}) {
    EXPECT_THROW(expand_counts("TASKS", damaged), InputError) << damaged;
  }
}

}  // namespace
}  // namespace weft
