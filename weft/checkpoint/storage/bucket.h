// A part of an object store's bucket as a Storage: s3://bucket/path, gs://bucket/path, abfs://container@account/path.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Opens it; nothing is asked of the store yet. Throws InputError for a URL of another kind, and where weft is built without
/// buckets.
std::unique_ptr<Storage> open_bucket(const std::string& url);

/// Ends the threads that object stores have. To be called before main() returns by a program that has opened one; none can be
/// opened afterwards.
void close_buckets();

}  // namespace weft
