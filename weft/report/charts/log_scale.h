// LogScale: maps numbers above 0 to positions along a logarithmic axis, and places its marks.
#pragma once

#include <string>
#include <vector>

namespace weft {

class LogScale {
 public:
  /// Maps `least` to `most`, both above 0, onto `length`; nearly equal numbers are spread a little.
  LogScale(double least, double most, double length);

  double at(double value) const;  ///< 0 for `least`
  double length() const { return length_; }

  struct Mark {
    double position = 0.0;
    std::string label;  ///< empty: a fine line without a label
  };
  /// Marks at 1, 2 and 5 times powers of ten; over many decades only the powers have labels.
  std::vector<Mark> marks() const;
  /// Marks at the given values; one closer than `distance` to a labelled one has no label.
  std::vector<Mark> marks_at(std::vector<double> values, double distance) const;

 private:
  double least_, most_, length_;
};

/// Formats a number for an axis: "0.05", "8192", "2.5 M".
std::string axis_number(double value);

}  // namespace weft
