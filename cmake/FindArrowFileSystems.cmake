# Finds Apache Arrow's file systems and its Parquet (C++) in an unpacked pyarrow wheel, where `tools/bootstrap --buckets` puts it, or in another Arrow.
# Input:  ARROW_ROOT (cache variable or environment): the folder that holds include/ and libarrow.so.*, libarrow_s3.so.*, libparquet.so.*.
# Output: ArrowFileSystems::ArrowFileSystems, ArrowFileSystems::Parquet.
# Without the component Headers (which weft's own build uses): only for linking.
set(_arrow_root ${ARROW_ROOT})
if(NOT _arrow_root)
  set(_arrow_root $ENV{ARROW_ROOT})
endif()
if(NOT _arrow_root)
  set(_arrow_root ${weft_arrow}) # of an installed weft
endif()
if(NOT _arrow_root)
  weft_cache_folder(_arrow_root)
  string(APPEND _arrow_root /arrow-26.0.0/pyarrow)
endif()

set(_arrow_required ArrowFileSystems_ARROW ArrowFileSystems_S3 ArrowFileSystems_PARQUET)
if(Headers IN_LIST ArrowFileSystems_FIND_COMPONENTS)
  find_path(ArrowFileSystems_INCLUDE_DIR arrow/filesystem/s3fs.h PATHS ${_arrow_root}/include NO_DEFAULT_PATH NO_CACHE)
  set(ArrowFileSystems_Headers_FOUND ${ArrowFileSystems_INCLUDE_DIR})
  list(APPEND _arrow_required ArrowFileSystems_INCLUDE_DIR)
endif()
# The wheel has no unversioned links such as libarrow.so.
file(GLOB _arrow_libraries ${_arrow_root}/libarrow.so* ${_arrow_root}/lib/libarrow.so*)
list(POP_FRONT _arrow_libraries ArrowFileSystems_ARROW)
file(GLOB _arrow_libraries ${_arrow_root}/libarrow_s3.so* ${_arrow_root}/lib/libarrow_s3.so*)
list(POP_FRONT _arrow_libraries ArrowFileSystems_S3)
file(GLOB _arrow_libraries ${_arrow_root}/libparquet.so* ${_arrow_root}/lib/libparquet.so*)
list(POP_FRONT _arrow_libraries ArrowFileSystems_PARQUET)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowFileSystems
  REQUIRED_VARS ${_arrow_required}
  REASON_FAILURE_MESSAGE "not found in ${_arrow_root}: run tools/bootstrap --buckets, or set ARROW_ROOT to an Arrow 26 with its S3 and Parquet")

if(ArrowFileSystems_FOUND AND NOT TARGET ArrowFileSystems::ArrowFileSystems)
  add_library(ArrowFileSystems::ArrowFileSystems INTERFACE IMPORTED)
  target_include_directories(ArrowFileSystems::ArrowFileSystems SYSTEM INTERFACE ${ArrowFileSystems_INCLUDE_DIR})
  target_link_libraries(ArrowFileSystems::ArrowFileSystems INTERFACE ${ArrowFileSystems_S3} ${ArrowFileSystems_ARROW})
  add_library(ArrowFileSystems::Parquet INTERFACE IMPORTED)
  target_include_directories(ArrowFileSystems::Parquet SYSTEM INTERFACE ${ArrowFileSystems_INCLUDE_DIR})
  target_link_libraries(ArrowFileSystems::Parquet INTERFACE ${ArrowFileSystems_PARQUET} ${ArrowFileSystems_ARROW})
endif()
