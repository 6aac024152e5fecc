# `make install` / `cmake --install`: the headers under include/weft, the layers' libraries, the weft command, the recipes, the hardware,
# and lib/cmake/weft for find_package(weft). The two components, command and development, are the packages of cmake/packages.cmake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

get_property(layers GLOBAL PROPERTY WEFT_LAYERS)
install(TARGETS weft_all ${layers} EXPORT weft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET weft)
  install(TARGETS weft RUNTIME_DEPENDENCY_SET weft_needs RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h PATTERN cli EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes ${PROJECT_SOURCE_DIR}/hardware DESTINATION ${CMAKE_INSTALL_DATADIR}/weft
  COMPONENT command FILES_MATCHING PATTERN *.toml)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT command RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libweft-dev RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT command OPTIONAL)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft NAMESPACE weft:: FILE weftTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/weftConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/weftConfig.cmake ${PROJECT_BINARY_DIR}/cmake/weftConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/FindArrowFileSystems.cmake DESTINATION ${package_folder})
