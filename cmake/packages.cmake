# What tools/package makes with CPack: the Debian packages weft (the command, with the LibTorch that no Debian has beside it in lib/weft)
# and libweft-dev (the library, for which LibTorch's headers are needed too: weftConfig.cmake finds them as in the source folder).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "The weft authors")
set(CPACK_COMPONENTS_ALL command development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd) # xz: a quarter less, in a hundred times the time

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME weft)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "trains deep models on several processes at once
The weft command, its recipes, and the libraries of LibTorch 2.11 that it runs on, for CPUs.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libarchive-dev, libfmt-dev, libhwy-dev, libjpeg-dev, libpng-dev, libssl-dev, libtomlplusplus-dev, libyaml-cpp-dev, nlohmann-json3-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "weft (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "library that trains deep models on several processes at once
Headers, static libraries and CMake files of weft. To build with them, unpack a LibTorch 2.11 and set LIBTORCH_ROOT to the
folder in it that holds include/ and lib/.")

include(CPack)

# Only in the component's own installation, which can be moved and copied; `make install` leaves LibTorch where it is.
set(libraries ${CMAKE_INSTALL_LIBDIR}/weft)
set_property(TARGET weft PROPERTY INSTALL_RPATH $ORIGIN/../${libraries})
install(RUNTIME_DEPENDENCY_SET weft_needs POST_EXCLUDE_REGEXES "^/(usr/)?lib" # those are in packages of their own
  LIBRARY DESTINATION ${libraries} COMPONENT command EXCLUDE_FROM_ALL)
install(CODE "set(weft_command [[${CMAKE_INSTALL_BINDIR}/weft]])\n  set(weft_rpath [[$ORIGIN/../${libraries}]])
  set(weft_documents [[${CMAKE_INSTALL_DATADIR}/doc/weft]])\n  set(libtorch_wheels [[${LibTorch_INCLUDE_DIR}/../..]])"
  COMPONENT command EXCLUDE_FROM_ALL)
install(CODE [[
  set(weft_prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(RPATH_SET FILE "${weft_prefix}/${weft_command}" NEW_RPATH "${weft_rpath}") # without this machine's LibTorch
  file(GLOB licenses "${libtorch_wheels}/torch-*.dist-info/licenses" "${libtorch_wheels}/nvidia_cuda_*.dist-info/licenses")
  if(NOT licenses)
    message(FATAL_ERROR "${libtorch_wheels}/torch-*.dist-info holds no licenses: put them there, or run tools/bootstrap --packaging")
  endif()
  foreach(folder IN LISTS licenses)
    string(REGEX REPLACE ".*/(.*)\\.dist-info/.*" "\\1" name "${folder}")
    file(COPY "${folder}/" DESTINATION "${weft_prefix}/${weft_documents}/${name}")
  endforeach()]] COMPONENT command EXCLUDE_FROM_ALL)
