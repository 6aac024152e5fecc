#!/usr/bin/env bash
# cmake/discover_suites.cmake turns a skipped, a disabled and a missing test into a failed one, and lets good ones pass.
set -euo pipefail
modules=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/cmake
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(suites LANGUAGES CXX)
enable_testing()
find_package(GTest REQUIRED)
include($modules/discover_suites.cmake)
foreach(name good disabled)
  add_executable(test_\${name} \${name}.cpp)
  target_link_libraries(test_\${name} PRIVATE GTest::gtest_main)
  weft_discover_suites(test_\${name} \${name})
endforeach()
add_executable(test_absent EXCLUDE_FROM_ALL good.cpp)
weft_discover_suites(test_absent absent)
CMAKE
cat >"$folder/good.cpp" <<'CPP'
#include <gtest/gtest.h>
TEST(Plain, Passes) {}
TEST(Plain, PassesToo) {}
TEST(Skipping, Skips) { GTEST_SKIP(); }
class Many : public testing::TestWithParam<int> {};
TEST_P(Many, Passes) {}
INSTANTIATE_TEST_SUITE_P(All, Many, testing::Range(0, 3));
CPP
cat >"$folder/disabled.cpp" <<'CPP'
#include <gtest/gtest.h>
TEST(Half, DISABLED_Never) {}
TEST(Half, Always) {}
CPP

cmake -S "$folder" -B "$folder/build" -G Ninja >"$folder/log" 2>&1 && cmake --build "$folder/build" >>"$folder/log" 2>&1 ||
  { cat "$folder/log" && exit 1; }
output=$(ctest --test-dir "$folder/build" 2>&1) && { echo "FAILED: ctest passed: $output" && exit 1; }
failures=0
expect() {
  grep -qE "$1" <<<"$output" || { echo "FAILED: no line '$1' in: $output" && failures=1; }
}
expect 'good.Plain .*Passed'
expect 'good.All/Many .*Passed'
expect 'good.Skipping .*Failed'
expect 'disabled.Half .*Passed'
expect 'disabled .has the disabled test DISABLED_Never. .*(Failed|Not Run)'
expect 'absent .not built. .*(Failed|Not Run)'
expect ' 3 tests failed out of 6'
exit $failures
