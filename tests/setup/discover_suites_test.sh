#!/usr/bin/env bash
# cmake/discover_suites.cmake turns a skipped, a disabled and a missing test into a failed one, lets good ones pass, and runs short
# suites with the same labels in one process.
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
set(WEFT_LONG good.Long good.Absent)
set(WEFT_AGAIN good.Again)
foreach(name good skips disabled)
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
TEST(Long, Passes) {}
TEST(Again, Passes) {}
class Many : public testing::TestWithParam<int> {};
TEST_P(Many, Passes) {}
INSTANTIATE_TEST_SUITE_P(All, Many, testing::Range(0, 3));
CPP
cat >"$folder/skips.cpp" <<'CPP'
#include <gtest/gtest.h>
TEST(Plain, Passes) {}
TEST(Skipping, Skips) { GTEST_SKIP(); }
CPP
cat >"$folder/disabled.cpp" <<'CPP'
#include <gtest/gtest.h>
TEST(Half, DISABLED_Never) {}
TEST(Half, Always) {}
CPP

cmake -S "$folder" -B "$folder/build" -G Ninja >"$folder/log" 2>&1 && cmake --build "$folder/build" >>"$folder/log" 2>&1 ||
  { cat "$folder/log" && exit 1; }
failures=0
run() {
  output=$(ctest --test-dir "$folder/build" 2>&1) && { echo "FAILED: ctest passed: $output" && exit 1; }
  return 0
}
expect() {
  grep -qE "$1" <<<"$output" || { echo "FAILED: no line '$1' in: $output" && failures=1; }
}
run
expect 'good.Plain[+]1 .*Passed'
expect 'good.Long .*Passed'
expect 'good.Again .*Passed'
expect 'good.Absent .tests/CMakeLists.txt names it, but it does not exist. .*(Failed|Not Run)'
expect 'skips.Plain[+]1 .*Failed'
expect 'disabled.Half .*Passed'
expect 'disabled .has the disabled test DISABLED_Never. .*(Failed|Not Run)'
expect 'absent .not built. .*(Failed|Not Run)'
expect ' 4 tests failed out of 8'

cmake -S "$folder" -B "$folder/build" -DWEFT_SUITES_PER_PROCESS=1 >"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
run
expect 'good.Plain .*Passed'
expect 'good.All/Many .*Passed'
expect 'skips.Plain .*Passed'
expect 'skips.Skipping .*Failed'
expect ' 4 tests failed out of 10'
exit $failures
