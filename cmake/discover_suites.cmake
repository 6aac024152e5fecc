# weft_discover_suites(target prefix): ctest entries for the GoogleTest suites in `target`: <prefix>.<Suite> for each long one (the list
# WEFT_LONG), and <prefix>.<Suite>+7 for eight others, which share a process: loading LibTorch costs a quarter of a
# second per process, three times that with a sanitizer. WEFT_SUITES_PER_PROCESS is their number at most; with 1, each suite is an
# entry; so it is under the thread sanitizer, which does not see OpenMP's barriers and takes a later suite's use of the stack for a
# race. A skipped, disabled or missing test fails, as does an entry that takes minutes; sanitizers make everything several times
# slower.
#
# Labels select the suites that a sanitizer runs (CMakePresets.json): the address sanitizer skips `again` (the list WEFT_AGAIN), the
# thread sanitizer runs only `threads` (WEFT_THREADS). A name in a list that matches no suite is a failed test; a
# sanitizer's build, which leaves out suites that it does not run, looks only for those that it should run.
set(WEFT_SUITES_PER_PROCESS 8 CACHE STRING "Number of short test suites that share a process")
function(weft_discover_suites target prefix)
  set(timeout 300)
  if(WEFT_SANITIZE)
    set(timeout 900)
  endif()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  file(CONFIGURE OUTPUT ${list} @ONLY CONTENT [[
# Runs when ctest starts: lists the suites of the executable as it is then.
cmake_policy(VERSION 3.25)
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
set(again @WEFT_AGAIN@)
set(threads @WEFT_THREADS@)
set(long @WEFT_LONG@)
set(unknown ${threads})
if("@WEFT_SANITIZE@" STREQUAL "")
  list(APPEND unknown ${again} ${long})
elseif(NOT "@WEFT_SANITIZE@" STREQUAL "thread")
  set(unknown)
endif()
list(FILTER unknown INCLUDE REGEX "^@prefix@[.]")
list(TRANSFORM suites STRIP)
list(TRANSFORM suites REPLACE "[.]$" "")

# Adds an entry for the suites, all of which have these labels.
function(add_suites labels first)
  set(name "@prefix@.${first}")
  set(filter "${first}.*")
  foreach(suite IN LISTS ARGN)
    string(APPEND filter ":${suite}.*")
  endforeach()
  list(LENGTH ARGN more)
  set(brief --gtest_brief=1)
  if(more)
    set(brief) # tools/slowest_tests reads each suite's time
    string(APPEND name "+${more}") # without blanks, which ctest's file of costs cannot hold
  endif()
  add_test("${name}" ${executable} "--gtest_filter=${filter}" ${brief})
  set_tests_properties("${name}" PROPERTIES TIMEOUT @timeout@ WORKING_DIRECTORY "@PROJECT_SOURCE_DIR@" LABELS "${labels}"
    ENVIRONMENT "OMP_NUM_THREADS=1" FAIL_REGULAR_EXPRESSION "  SKIPPED ;\\] 0 tests")
endfunction()

foreach(suite IN LISTS suites)
  set(name "@prefix@.${suite}")
  set(labels)
  if(name IN_LIST again)
    list(APPEND labels again)
  endif()
  if(name IN_LIST threads OR "@prefix@" IN_LIST threads)
    list(APPEND labels threads)
  endif()
  list(REMOVE_ITEM unknown "${name}")
  if(name IN_LIST long)
    add_suites("${labels}" ${suite})
    set_tests_properties("${name}" PROPERTIES COST 100) # starts early
    continue()
  endif()
  string(REPLACE ";" "_" group "group_${labels}")
  list(APPEND ${group} ${suite})
  list(LENGTH ${group} count)
  if(count EQUAL @WEFT_SUITES_PER_PROCESS@)
    add_suites("${labels}" ${${group}})
    set(${group})
  endif()
endforeach()
foreach(labels "" again threads "again;threads")
  string(REPLACE ";" "_" group "group_${labels}")
  if(${group})
    add_suites("${labels}" ${${group}})
    set(${group}) # the next executable's list is read in the same scope
  endif()
endforeach()
foreach(suite IN LISTS unknown)
  set(missing "${suite} (tests/CMakeLists.txt names it, but it does not exist)")
  add_test("${missing}" false)
  set_tests_properties("${missing}" PROPERTIES LABELS threads) # so that the thread sanitizer's preset runs it too
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${list})
endfunction()
