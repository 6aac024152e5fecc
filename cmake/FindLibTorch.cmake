# Finds LibTorch in an unpacked PyPI wheel (or any other LibTorch) without its own find_package(Torch), which demands CUDA.
# Input:  LIBTORCH_ROOT (cache variable or environment): the folder that holds include/ and lib/.
# Output: LibTorch::LibTorch, the CPU library.
#         LibTorch::CUDA with the component CUDA: libtorch_cuda, c10_cuda and the CUDA toolkit's headers and libraries.

# ${XDG_CACHE_HOME:-~/.cache}/weft, where tools/bootstrap puts LibTorch.
function(weft_cache_folder result)
  set(folder $ENV{XDG_CACHE_HOME})
  if(NOT folder)
    set(folder $ENV{HOME}/.cache)
  endif()
  set(${result} ${folder}/weft PARENT_SCOPE)
endfunction()

set(_libtorch_root ${LIBTORCH_ROOT})
if(NOT _libtorch_root)
  set(_libtorch_root $ENV{LIBTORCH_ROOT})
endif()
if(NOT _libtorch_root)
  set(_libtorch_root ${weft_libtorch}) # of an installed weft
endif()
if(NOT _libtorch_root)
  weft_cache_folder(_libtorch_root)
  string(APPEND _libtorch_root /libtorch-2.11.0/torch)
endif()

# Not cached, so that another LIBTORCH_ROOT takes effect in an old build folder.
find_path(LibTorch_INCLUDE_DIR ATen/core/Tensor.h PATHS ${_libtorch_root}/include NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_CPU torch_cpu PATHS ${_libtorch_root}/lib NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_C10 c10 PATHS ${_libtorch_root}/lib NO_DEFAULT_PATH NO_CACHE)
set(_libtorch_required LibTorch_INCLUDE_DIR LibTorch_CPU LibTorch_C10)

if(CUDA IN_LIST LibTorch_FIND_COMPONENTS)
  find_library(LibTorch_TORCH_CUDA torch_cuda PATHS ${_libtorch_root}/lib NO_DEFAULT_PATH NO_CACHE)
  find_library(LibTorch_C10_CUDA c10_cuda PATHS ${_libtorch_root}/lib NO_DEFAULT_PATH NO_CACHE)
  find_package(CUDAToolkit 13 QUIET)
  set(LibTorch_CUDA_FOUND ${CUDAToolkit_FOUND})
  # NCCL comes with some toolkits; otherwise tools/bootstrap --cuda unpacks it next to LibTorch.
  find_path(LibTorch_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_libtorch_root}/../nvidia/nccl/include NO_CACHE)
  list(APPEND _libtorch_required LibTorch_TORCH_CUDA LibTorch_C10_CUDA LibTorch_CUDA_FOUND LibTorch_NCCL_INCLUDE_DIR)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS ${_libtorch_required}
  REASON_FAILURE_MESSAGE "not found in ${_libtorch_root}: run tools/bootstrap (--cuda for a CUDA build), or set LIBTORCH_ROOT to a LibTorch 2.11, the folder with include/ and lib/")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  # The wheel has fmt's headers without its library, so the machine's own packages are searched first.
  target_compile_options(LibTorch::LibTorch INTERFACE
    "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:SHELL:-idirafter ${LibTorch_INCLUDE_DIR}>"
    "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:SHELL:-idirafter ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include>"
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-isystem ${LibTorch_INCLUDE_DIR}>")
  # The wheel is built with NDEBUG; without it, some of its classes (RecordFunction) have another layout in their headers.
  target_compile_definitions(LibTorch::LibTorch INTERFACE AT_PER_OPERATOR_HEADERS
    $<$<NOT:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:NDEBUG>)
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_CPU} ${LibTorch_C10})
endif()

if(LibTorch_FOUND AND LibTorch_TORCH_CUDA AND NOT TARGET LibTorch::CUDA)
  add_library(LibTorch::CUDA INTERFACE IMPORTED)
  target_include_directories(LibTorch::CUDA SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${LibTorch_NCCL_INCLUDE_DIR})
  target_compile_definitions(LibTorch::CUDA INTERFACE USE_C10D_NCCL)
  # libtorch_cuda registers its kernels when loaded, so it must stay linked though nothing uses its symbols. It needs the toolkit's
  # libraries, and those that tools/bootstrap --cuda put on its run path.
  target_link_libraries(LibTorch::CUDA INTERFACE LibTorch::LibTorch
    -Wl,--push-state,--no-as-needed ${LibTorch_TORCH_CUDA} ${LibTorch_C10_CUDA} -Wl,--pop-state CUDA::cudart)
  file(GLOB _libtorch_needs LIST_DIRECTORIES true ${_libtorch_root}/../nvidia/*/lib)
  foreach(folder IN LISTS _libtorch_needs CUDAToolkit_LIBRARY_DIR)
    target_link_options(LibTorch::CUDA INTERFACE -Wl,-rpath-link,${folder})
  endforeach()
  target_link_options(LibTorch::CUDA INTERFACE -Wl,-rpath,${CUDAToolkit_LIBRARY_DIR})
endif()
