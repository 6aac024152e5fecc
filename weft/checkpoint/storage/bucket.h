// Part of an object store's bucket as a Storage: s3://bucket/path, gs://bucket/path, abfs://container@account/path.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Opens a bucket without contacting the store. Throws InputError for a URL of another kind, and if weft is built without
/// buckets.
std::unique_ptr<Storage> open_bucket(const std::string& url);

/// Ends the object stores' threads. A program that opened a bucket calls this before main() returns, and opens no more.
void close_buckets();

}  // namespace weft
