// CIFAR-10 and CIFAR-100 in their binary form (Krizhevsky 2009): files of records, one or two bytes of labels, then 32 x 32
// bytes of red, green and blue each.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// Which of them.
enum class CifarKind { cifar10, cifar100 };

/// The records of one part of the set: data_batch_1.bin to data_batch_5.bin or test_batch.bin, train.bin or test.bin (of whose
/// two labels the fine one counts), in `folder` or in the folder of the archive in it (cifar-10-batches-bin, cifar-100-binary).
/// They stay in memory: 150 MB for the 50 000. Throws InputError for a file that is missing, of no whole number of records, or
/// has a label out of range; BadData::skip leaves out those records alone.
std::shared_ptr<ImageSource> open_cifar(const std::string& folder, CifarKind kind, bool training,
                                        BadData bad = BadData::refuse);

}  // namespace weft
