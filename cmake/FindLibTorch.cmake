# Finds LibTorch in an unpacked PyPI wheel (or any other LibTorch) without its own find_package(Torch), which demands CUDA.
# Input:  LIBTORCH_ROOT (cache variable or environment): the folder that holds include/ and lib/.
# Output: LibTorch::LibTorch, the CPU library, and with WEFT_CUDA also the CUDA one.
set(_weft_cache $ENV{XDG_CACHE_HOME})
if(NOT _weft_cache)
  set(_weft_cache $ENV{HOME}/.cache)
endif()
if(NOT LIBTORCH_ROOT AND DEFINED ENV{LIBTORCH_ROOT})
  set(LIBTORCH_ROOT $ENV{LIBTORCH_ROOT})
endif()
if(NOT LIBTORCH_ROOT)
  set(LIBTORCH_ROOT ${_weft_cache}/weft/libtorch-2.11.0/torch)
endif()

find_path(LibTorch_INCLUDE_DIR ATen/core/Tensor.h PATHS ${LIBTORCH_ROOT}/include NO_DEFAULT_PATH)
find_library(LibTorch_CPU torch_cpu PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_C10 c10 PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_INCLUDE_DIR LibTorch_CPU LibTorch_C10
  REASON_FAILURE_MESSAGE "run tools/bootstrap, or set LIBTORCH_ROOT to a LibTorch 2.11 (the folder with include/ and lib/)")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::LibTorch INTERFACE AT_PER_OPERATOR_HEADERS)
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_CPU} ${LibTorch_C10})
endif()
