// operator_rates: time of operators by class, as measured on a device. Prices a program's operators without knowledge of how
// the device computes them, unlike OperatorCosts' tiles and waves: weft calibrate writes the rates of the machine at hand.
//
// An operator takes start_s, and its work, its bytes and its extra work at the rates of its class. Measured times of products,
// convolutions and attention on CPUs are within a few percent of that sum over sizes that differ a thousandfold.
#pragma once

#include <string>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/base/operator_work.h"

namespace weft {

/// Operators that a device runs alike.
enum class OperatorClass : uint8_t {
  product,
  weight_product,  ///< of a weight's gradient: its first factor is read by columns
  convolution,     ///< of windows of several pixels
  convolution_image,
  convolution_filters,
  pointwise,  ///< convolutions of single pixels
  pointwise_image,
  pointwise_filters,
  attention,
  attention_backward,
  norm,
  norm_backward,
  channels,  ///< passes of batch norm
  channels_backward,
  pool,
  pool_backward,
  activation,
  activation_backward,
  rotary,
  dropout,
  loss,
  embedding,
  embedding_backward,
  update,  ///< the optimizer's
  other,   ///< copies, sums
};
/// Names, as in hardware files.
inline constexpr EnumNames<OperatorClass, 25> kOperatorClasses("product", "weight_product", "convolution", "convolution_image",
                                                               "convolution_filters", "pointwise", "pointwise_image",
                                                               "pointwise_filters", "attention", "attention_backward", "norm",
                                                               "norm_backward", "channels", "channels_backward", "pool",
                                                               "pool_backward", "activation", "activation_backward", "rotary",
                                                               "dropout", "loss", "embedding", "embedding_backward", "update",
                                                               "other");

/// What an operator's time grows with.
struct OperatorLoad {
  double work = 0.0;   ///< floating-point operations of products and attention, otherwise elements of the largest tensor
  double bytes = 0.0;  ///< read and written, without filters of convolutions
  double extra = 0.0;  ///< bytes of a convolution's filters; scores of attention, in whole tiles
};

/// Rates of a class, in elements of one size.
struct OperatorRate {
  std::string of;             ///< a name of kOperatorClasses
  int64_t element_bytes = 4;  ///< 2: bfloat16 and float16
  double start_s = 0.0;       ///< time per launch
  double work_s = 0.0;        ///< time per unit of OperatorLoad::work
  double byte_s = 0.0;        ///< time per byte
  double far_byte_s = 0.0;    ///< further time per byte beyond the first OperatorRates::near_bytes
  double extra_s = 0.0;       ///< time per unit of OperatorLoad::extra
};

/// Rates of a device.
struct OperatorRates {
  double near_bytes = 0.0;            ///< bytes of an operator that its caches hold
  std::vector<OperatorRate> of = {};  ///< one per class and size of elements; empty: none are known
};

OperatorClass class_of(const OperatorWork& work);  ///< class of an operator
OperatorLoad load_of(const OperatorWork& work);    ///< of one launch

/// Time of one launch. Throws InputError that begins with `name`, the hardware's, if the class has no rate.
double rated_seconds(const OperatorWork& work, const OperatorRates& rates, const std::string& name);

/// Time of an operator of OperatorKind::memory that is no kernel of a block: `of` is other, or update.
double rated_seconds(OperatorClass of, double bytes, int element_bytes, const OperatorRates& rates, const std::string& name);

/// Throws InputError that begins with `name` for an unknown class, a class that appears twice, elements of neither 2 nor 4
/// bytes, or a time or near_bytes that is negative.
void check_rates(const OperatorRates& rates, const std::string& name);

}  // namespace weft
