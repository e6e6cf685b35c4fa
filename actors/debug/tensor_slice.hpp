#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/shape.hpp"

namespace millrace::actors {

/// The elements along one axis: first, first + stride, … `count` of them. An axis that was given a single index has no place in
/// the shape of the result, as in numpy.
struct AxisSlice {
  std::int64_t first = 0, count = 0, stride = 1;
  bool single = false;
  [[nodiscard]] std::int64_t at(std::int64_t place) const { return first + place * stride; }
};

/// A part of a tensor, one entry for every axis.
struct TensorSlice {
  std::vector<AxisSlice> axes;
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::vector<std::int64_t> sizes() const;  // without the axes of single indices
};

/// "NAME[0:4, :8]" → "NAME" and "0:4, :8"; without brackets the second is empty and `given` false.
struct SlicedName {
  std::string name, slice;
  bool given = false;
};
[[nodiscard]] SlicedName split_slice(const std::string& text);

/// Reads "0:4, :8", "-1", "::2, 3", "..., 0" for a tensor of this shape: per axis an index or a slice, counted from the end if
/// negative; axes that are not given are taken whole, bounds of slices are limited to the axis. Throws Error(usage), with name and
/// shape, if an index is outside, there are too many, or a stride is not positive.
[[nodiscard]] TensorSlice parse_slice(const std::string& text, const std::string& name, const kernels::Shape& shape);

/// The number in memory of the only element of a slice. Throws Error(usage), with the text, if it has another number of them.
[[nodiscard]] std::int64_t element_of(const TensorSlice& slice, const std::string& text, const kernels::Shape& shape);

}  // namespace millrace::actors
