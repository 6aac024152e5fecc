# Packages that tools/package makes with CPack: weft (the command, and in lib/weft the LibTorch that Debian does not package) and
# libweft-dev (the library, with LibTorch's headers). They are the components of cmake/installation.cmake.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "The weft authors")
set(CPACK_COMPONENTS_ALL command development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd) # xz: a quarter smaller, a hundred times slower

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME weft)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "trains deep models on several processes at once
The weft command, its recipes, and the libraries of LibTorch 2.11 that it runs on, for CPUs.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "weft (= ${PROJECT_VERSION}), libarchive-dev, libfmt-dev, libhwy-dev, libjpeg-dev, libpng-dev, libssl-dev, libtomlplusplus-dev, libyaml-cpp-dev, nlohmann-json3-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "library that trains deep models on several processes at once
Headers, static libraries and CMake files of weft, and the headers of the LibTorch 2.11 that it runs on.")

include(CPack)

# These errors occur when the component is installed alone, as for packages and images; `make install` ignores them.
set(refusal)
file(GLOB licenses ${libtorch}/../torch-*.dist-info/licenses)
if(NOT WEFT_INSTALL_LIBTORCH)
  set(refusal "packages contain their LibTorch, but LIBTORCH_ROOT keeps it outside: cmake -DWEFT_INSTALL_LIBTORCH=ON build")
elseif(NOT licenses)
  set(refusal "no licenses in ${libtorch}/../torch-*.dist-info: put them there, or run tools/bootstrap --packaging; then cmake build")
endif()
if(refusal)
  install(CODE "message(FATAL_ERROR [[${refusal}]])" COMPONENT command EXCLUDE_FROM_ALL)
endif()
