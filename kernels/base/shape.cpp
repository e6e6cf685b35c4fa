#include "kernels/base/shape.hpp"

namespace millrace::kernels {

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
