#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/base/device.hpp"
#include "kernels/base/dtype.hpp"
#include "kernels/base/shape.hpp"

namespace millrace::kernels {

/// A typed view of memory that belongs to somebody else; row-major and contiguous. Its shape is that of the execution: bounded
/// axes have their runtime count.
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  MemorySpace space = MemorySpace::host;

  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data);
  }
  [[nodiscard]] std::int64_t elements() const noexcept { return shape.elements(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  [[nodiscard]] explicit operator bool() const noexcept { return data != nullptr; }
};

template <class T>
[[nodiscard]] inline Tensor make_tensor(T* data, DType dtype, Shape shape) {
  return {reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(data)), dtype, shape, MemorySpace::host};
}

}  // namespace millrace::kernels
