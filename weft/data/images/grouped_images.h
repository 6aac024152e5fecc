// Images that are read a group at a time, in an order by groups.
#pragma once

#include <memory>

#include "weft/data/dataset.h"
#include "weft/data/group_order.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// Returns the samples of `images` in their own training order (Dataset::is_ordered()). `images` has one sample per image of
/// `source`, which is read in groups. A sample's random draws depend on the image, not on its place in the order.
std::shared_ptr<Dataset> in_order_of_groups(std::shared_ptr<const Dataset> images, std::shared_ptr<const ImageSource> source,
                                            const GroupOrderOptions& options);

}  // namespace weft
