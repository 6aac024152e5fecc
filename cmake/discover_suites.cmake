# weft_discover_suites(target prefix): a ctest entry <prefix>.<Suite> for each GoogleTest suite in `target`. Not one for each test,
# as gtest_discover_tests does: loading LibTorch costs a quarter of a second a process. A skipped, disabled or missing
# test is a failed one, and so is a suite that takes minutes; sanitizers make all of it several times slower.
#
# Labels say which suites a sanitizer runs (CMakePresets.json): the address sanitizer those without `again`, which one that matches
# WEFT_AGAIN has, the thread sanitizer those with `threads`, which one that matches WEFT_THREADS has.
function(weft_discover_suites target prefix)
  set(timeout 300)
  if(WEFT_SANITIZE)
    set(timeout 900)
  endif()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  file(CONFIGURE OUTPUT ${list} @ONLY CONTENT [[
# Runs when ctest starts: the suites are asked of the executable as it is then.
set(executable "@CMAKE_CURRENT_BINARY_DIR@/@target@")
if(NOT EXISTS ${executable})
  add_test("@prefix@ (not built)" ${executable})
  return()
endif()
execute_process(COMMAND ${executable} --gtest_list_tests OUTPUT_VARIABLE listing RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  add_test("@prefix@ (cannot list its tests)" ${executable} --gtest_list_tests)
  return()
endif()
if(listing MATCHES "DISABLED_[A-Za-z0-9_]*")
  add_test("@prefix@ (has the disabled test ${CMAKE_MATCH_0})" false)
endif()
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listing}")
foreach(suite IN LISTS suites)
  string(STRIP ${suite} suite)
  string(REGEX REPLACE "\\.$" "" suite ${suite})
  add_test("@prefix@.${suite}" ${executable} "--gtest_filter=${suite}.*" --gtest_brief=1)
  set_tests_properties("@prefix@.${suite}" PROPERTIES TIMEOUT @timeout@ WORKING_DIRECTORY "@PROJECT_SOURCE_DIR@"
    ENVIRONMENT "OMP_NUM_THREADS=1" FAIL_REGULAR_EXPRESSION "  SKIPPED ;\\] 0 tests")
  set(labels)
  if("@prefix@.${suite}" MATCHES "@WEFT_AGAIN@")
    list(APPEND labels again)
  endif()
  if("@prefix@.${suite}" MATCHES "@WEFT_THREADS@")
    list(APPEND labels threads)
  endif()
  set_tests_properties("@prefix@.${suite}" PROPERTIES LABELS "${labels}")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${list})
endfunction()
