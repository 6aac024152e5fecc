# `make install` / `cmake --install`: headers, layer libraries, libweft_c.so with weft.h and weft.f90, the weft command with manual pages and shell completion, recipes,
# hardware, monitoring, and lib/cmake/weft for find_package. cmake/packages.cmake makes a package of each component.
#
# An installation is self-contained: it can be moved, and works for other users after the build and weft's cache folder are gone. So
# LibTorch and everything else that no system package has is copied to lib/weft (include and lib, as in a LibTorch), where bin/weft and
# find_package(weft) look. A LibTorch named by LIBTORCH_ROOT, or one of a CUDA build, stays where it is.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

if(NOT DEFINED WEFT_INSTALL_LIBTORCH)
  set(WEFT_INSTALL_LIBTORCH ON)
  if(LIBTORCH_ROOT OR DEFINED ENV{LIBTORCH_ROOT} OR WEFT_CUDA OR NOT TARGET weft)
    set(WEFT_INSTALL_LIBTORCH OFF)
  endif()
endif()
set(own_folder ${CMAKE_INSTALL_LIBDIR}/weft)
get_filename_component(libtorch ${LibTorch_INCLUDE_DIR}/.. ABSOLUTE)

get_property(layers GLOBAL PROPERTY WEFT_LAYERS)
install(TARGETS weft_all ${layers} EXPORT weft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
list(TRANSFORM layers REPLACE "^weft_" "" OUTPUT_VARIABLE weft_components)
if(TARGET weft_c)
  list(APPEND weft_components c)
endif()
if(TARGET weft)
  install(TARGETS weft RUNTIME_DEPENDENCY_SET weft_needs RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  set(elsewhere "^/(usr/)?lib") # libraries that have their own packages
  set(run_path $ORIGIN/../${own_folder}/lib)
  if(NOT WEFT_INSTALL_LIBTORCH)
    string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" pattern "${libtorch}") # its path may have a + in it
    list(APPEND elsewhere "^${pattern}/")
    list(APPEND run_path ${libtorch}/lib)
  endif()
  if(WEFT_CUDA) # its libraries, including those loaded by name, stay where they were at link time
    set_property(TARGET weft PROPERTY INSTALL_RPATH_USE_LINK_PATH ON)
  else()
    set_property(TARGET weft PROPERTY INSTALL_RPATH ${run_path})
    install(RUNTIME_DEPENDENCY_SET weft_needs POST_EXCLUDE_REGEXES ${elsewhere} LIBRARY DESTINATION ${own_folder}/lib COMPONENT command)
  endif()
endif()
if(TARGET weft_c)
  if(WEFT_CUDA)
    set_property(TARGET weft_c PROPERTY INSTALL_RPATH_USE_LINK_PATH ON)
  else()
    set(run_path_of_c $ORIGIN/weft/lib)
    if(NOT WEFT_INSTALL_LIBTORCH)
      list(APPEND run_path_of_c ${libtorch}/lib)
    endif()
    set_property(TARGET weft_c PROPERTY INSTALL_RPATH ${run_path_of_c})
  endif()
  install(TARGETS weft_c EXPORT weft LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/weft/c/weft.h ${PROJECT_SOURCE_DIR}/weft/c/weft.f90 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(TARGET weft)
  # The command generates its manual pages and completion from its own tables.
  install(CODE "set(weft [[$<TARGET_FILE:weft>]])\n  set(pages [[${PROJECT_BINARY_DIR}/pages]])" COMPONENT command)
  install(CODE [[
  file(REMOVE_RECURSE "${pages}")
  execute_process(COMMAND "${weft}" man "${pages}/man" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${weft}" completion bash OUTPUT_FILE "${pages}/weft" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${weft}" completion zsh OUTPUT_FILE "${pages}/_weft" COMMAND_ERROR_IS_FATAL ANY)]] COMPONENT command)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/pages/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/pages/weft DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/pages/_weft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
endif()
if(WEFT_INSTALL_LIBTORCH)
  install(DIRECTORY ${libtorch}/include DESTINATION ${own_folder})
  install(CODE "set(wheels [[${libtorch}/..]])\n  set(documents [[${CMAKE_INSTALL_DATADIR}/doc/weft]])" COMPONENT command)
  install(CODE [[
  file(GLOB licenses "${wheels}/torch-*.dist-info/licenses" "${wheels}/nvidia_cuda_*.dist-info/licenses")
  foreach(folder IN LISTS licenses)
    string(REGEX REPLACE ".*/(.*)\\.dist-info/.*" "\\1" name "${folder}")
    file(INSTALL "${folder}/" DESTINATION "${CMAKE_INSTALL_PREFIX}/${documents}/${name}")
  endforeach()]] COMPONENT command)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/weft ${PROJECT_SOURCE_DIR}/compatibility/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h PATTERN cli EXCLUDE PATTERN weft/c EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes ${PROJECT_SOURCE_DIR}/hardware ${PROJECT_SOURCE_DIR}/monitoring DESTINATION ${CMAKE_INSTALL_DATADIR}/weft
  COMPONENT command FILES_MATCHING PATTERN *.toml PATTERN *.yml)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT command RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libweft-dev RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT command OPTIONAL)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft NAMESPACE weft:: FILE weftTargets.cmake DESTINATION ${package_folder})
set(weft_is_shared OFF)
set(weft_libtorch ${libtorch})
get_filename_component(weft_arrow "${ArrowFileSystems_ARROW}" DIRECTORY)
if(TARGET weft AND NOT WEFT_CUDA) # its libraries were copied
  set(weft_arrow ${own_folder}/lib)
endif()
if(WEFT_INSTALL_LIBTORCH)
  set(weft_libtorch ${own_folder})
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/weftConfig.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS weft_libtorch weft_arrow)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/weftConfig.cmake ${PROJECT_BINARY_DIR}/cmake/weftConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/FindArrowFileSystems.cmake DESTINATION ${package_folder})
