// ResNet (He et al. 2016, arXiv:1512.03385): convolutions in residual blocks, each a block of the chain.
#pragma once

#include "weft/base/enum_names.h"
#include "weft/nn/model.h"

namespace weft {

/// What normalises a ResNet's channels.
enum class ResnetNorm { batch, group };
/// The words for them, as recipes have them.
inline constexpr EnumNames<ResnetNorm, 2> kResnetNorms("batch", "group");

/// The size of a ResNet.
struct ResnetOptions {
  /// Of the family for small images (CIFAR; section 4.2): 8, 20, 32, 44, 56, 110; of that for large ones (ImageNet; table 1):
  /// 18, 34, 50, 101, 152. The number is of layers with weights.
  int64_t depth = 20;
  int64_t channels = 3;                 ///< of the images
  int64_t classes = 10;                 ///< logits of an image
  int64_t width = 0;                    ///< channels of the first stage; 0: the paper's, 16 or 64
  ResnetNorm norm = ResnetNorm::batch;  ///< group: 32 groups, or fewer where a stage has no more channels
  /// The last norm of each residual block begins with weights of zero, so that the block begins as the identity (Goyal et al.
  /// 2017, arXiv:1706.02677, section 5.1).
  bool zero_init_residual = false;
};

/// Whether a ResNet of this depth is of the family for small images. Throws InputError for a depth that none has.
bool is_small_resnet(int64_t depth);

/// The network, with cross_entropy() as its loss: input [batch, channels, height, width], output logits [batch, classes].
/// Images of at least 8 pixels a side (small) or 32 (large) leave something to pool. Parameters have torchvision's names:
/// conv1.weight, bn1.weight, layer1.0.conv1.weight, ..., layer2.0.downsample.0.weight, ..., fc.weight, fc.bias. The small
/// family's shortcuts have no weights: where a stage begins they take every second pixel, and zeros for the channels that are
/// new. Convolutions are drawn from He's normal distribution (fan out), the head as PyTorch does. Throws InputError for a depth
/// that there is none of, and a size below 1.
Model resnet(const ResnetOptions& options);

}  // namespace weft
