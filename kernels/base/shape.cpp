#include "kernels/base/shape.hpp"

namespace millrace::kernels {

std::vector<std::int64_t> Shape::sizes() const {
  std::vector<std::int64_t> sizes;
  for (std::size_t axis = 0; axis < rank_; ++axis) sizes.push_back(dimensions_[axis].capacity);
  return sizes;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    if (shape.dimension(axis).bounded()) text += "<=";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace millrace::kernels
