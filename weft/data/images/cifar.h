// CIFAR-10 and CIFAR-100 in their binary form (Krizhevsky 2009): files of records, each one or two label bytes, then 32 x 32
// bytes each of red, green and blue.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// The two sets.
enum class CifarKind { cifar10, cifar100 };

/// Records of one part of the set: data_batch_1.bin to data_batch_5.bin or test_batch.bin, train.bin or test.bin (of two
/// labels, the fine one is used), in `folder` or in the archive's folder inside it (cifar-10-batches-bin, cifar-100-binary).
/// They stay in memory: 150 MB for the 50 000 training images. Throws InputError for a file that is missing, is not a whole
/// number of records, or has a label out of range; BadData::skip leaves out only those records.
std::shared_ptr<ImageSource> open_cifar(const std::string& folder, CifarKind kind, bool training,
                                        BadData bad = BadData::refuse);

}  // namespace weft
