// Images that are read a group at a time, in an order by groups.
#pragma once

#include <memory>

#include "weft/data/dataset.h"
#include "weft/data/group_order.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// `images` are samples of `source`, one each, which is read in groups: the same in an order of their own
/// (Dataset::is_ordered()), for training. What is random in a sample stays that of the image, wherever it comes.
std::shared_ptr<Dataset> in_order_of_groups(std::shared_ptr<const Dataset> images, std::shared_ptr<const ImageSource> source,
                                            const GroupOrderOptions& options);

}  // namespace weft
