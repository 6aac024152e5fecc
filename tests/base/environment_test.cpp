#include "weft/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr const char* kName = "WEFT_TEST_ENVIRONMENT";

class Environment : public testing::Test {
 protected:
  void SetUp() override { unsetenv(kName); }
  void TearDown() override { unsetenv(kName); }
  static void set(const char* value) { setenv(kName, value, 1); }
};

TEST_F(Environment, unset_and_empty_are_no_value) {
  EXPECT_FALSE(env_int(kName));
  EXPECT_FALSE(env_string(kName));
  set("");
  EXPECT_FALSE(env_int(kName));
  EXPECT_FALSE(env_double(kName));
  EXPECT_FALSE(env_bool(kName));
  EXPECT_FALSE(env_string(kName));
}

TEST_F(Environment, values) {
  set("-42");
  EXPECT_EQ(env_int(kName), -42);
  EXPECT_EQ(env_string(kName), "-42");
  set("2.5e-1");
  EXPECT_EQ(env_double(kName), 0.25);
  set("on");
  EXPECT_EQ(env_bool(kName), true);
  set("0");
  EXPECT_EQ(env_bool(kName), false);
}

TEST_F(Environment, counts_are_not_negative) {
  set("0");
  EXPECT_EQ(env_count(kName), 0);
  for (const char* wrong : {"-1", "2147483648", "1e3"}) {
    set(wrong);
    EXPECT_THROW(env_count(kName), InputError) << wrong;
  }
}

TEST_F(Environment, errors_name_variable_and_value) {
  for (const char* garbage : {"two", "2x", "2.5", " 2", "99999999999999999999"}) {
    set(garbage);
    try {
      env_int(kName);
      ADD_FAILURE() << garbage;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(kName) + "='" + garbage + "'"), std::string::npos) << error.what();
    }
  }
  set("1e999");
  EXPECT_THROW(env_double(kName), InputError);
  set("maybe");
  EXPECT_THROW(env_bool(kName), InputError);
}

TEST_F(Environment, a_long_value_is_shortened) {
  set(std::string(5000, 'x').c_str());
  try {
    env_int(kName);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_LT(std::string(error.what()).size(), 400U) << error.what();
  }
}

}  // namespace
}  // namespace weft
