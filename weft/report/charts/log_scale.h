// LogScale: numbers above 0 to positions along an axis on which a factor has the same length everywhere, and its marks.
#pragma once

#include <string>
#include <vector>

namespace weft {

class LogScale {
 public:
  /// From `least` to `most`, both above 0, over `length`; numbers that are alike are spread a little.
  LogScale(double least, double most, double length);

  double at(double value) const;  ///< 0 for `least`
  double length() const { return length_; }

  struct Mark {
    double position = 0.0;
    std::string label;  ///< empty: a fine line without one
  };
  /// 1, 2 and 5 times powers of ten; of many decades the powers alone have labels.
  std::vector<Mark> marks() const;
  /// The given values, of which those that stand closer than `distance` to one with a label have none.
  std::vector<Mark> marks_at(std::vector<double> values, double distance) const;

 private:
  double least_, most_, length_;
};

/// A number as an axis shows it: "0.05", "8192", "2.5 M".
std::string axis_number(double value);

}  // namespace weft
