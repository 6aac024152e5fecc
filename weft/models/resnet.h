// ResNet (He et al. 2016, arXiv:1512.03385): convolutions in residual blocks, each a block of the chain.
#pragma once

#include "weft/base/enum_names.h"
#include "weft/nn/model.h"

namespace weft {

/// Normalisation of a ResNet's channels.
enum class ResnetNorm { batch, group };
/// Names of the norms in recipes.
inline constexpr EnumNames<ResnetNorm, 2> kResnetNorms("batch", "group");

/// The size of a ResNet.
struct ResnetOptions {
  /// Layers with weights. Small-image family (CIFAR; section 4.2): 8, 20, 32, 44, 56, 110. Large-image family (ImageNet; table
  /// 1): 18, 34, 50, 101, 152.
  int64_t depth = 20;
  int64_t channels = 3;                 ///< channels of the images
  int64_t classes = 10;                 ///< logits per image
  int64_t width = 0;                    ///< channels of the first stage; 0: the paper's, 16 or 64
  ResnetNorm norm = ResnetNorm::batch;  ///< group: 32 groups, or one per channel in stages with fewer channels
  /// Initialises the weights of each residual block's last norm to zero, so the block starts as the identity (Goyal et al.
  /// 2017, arXiv:1706.02677, section 5.1).
  bool zero_init_residual = false;
};

/// Returns whether a ResNet of this depth belongs to the small-image family. Throws InputError for an unknown depth.
bool is_small_resnet(int64_t depth);

/// The network with cross_entropy() as its loss: input [batch, channels, height, width], output logits [batch, classes]. Images
/// need at least 8 pixels per side (small family) or 32 (large). Parameters have torchvision's names: conv1.weight, bn1.weight,
/// layer1.0.conv1.weight, ..., layer2.0.downsample.0.weight, ..., fc.weight, fc.bias. The small family's shortcuts have no
/// weights: at the start of a stage they take every second pixel and fill new channels with zeros. Convolutions start from
/// He's normal distribution (fan out), the head as in PyTorch. Throws InputError for an unknown depth or a size below 1.
Model resnet(const ResnetOptions& options);

}  // namespace weft
