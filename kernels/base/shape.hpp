#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace millrace::kernels {

/// One axis of a shape: its size or, if a runtime count limits it, its capacity. Memory is planned for the capacity; an execution
/// uses the count (routed tokens, the remainder of an evaluation, the tokens generated so far).
struct Dimension {
  std::int64_t capacity = 0;
  std::int16_t count = -1;  // index into the execution's runtime counts; -1: the size is exact
  std::int32_t factor = 1;  // a bounded size is this many times its count: K rows for each of T tokens

  constexpr Dimension() = default;
  constexpr Dimension(std::int64_t size) : capacity(size) {}  // NOLINT: a plain size is a dimension
  constexpr Dimension(std::int64_t capacity_, std::int16_t count_, std::int32_t factor_ = 1)
      : capacity(capacity_), count(count_), factor(factor_) {}
  [[nodiscard]] constexpr bool bounded() const noexcept { return count >= 0; }
  /// The axis of `by` entries for each of this one's.
  [[nodiscard]] constexpr Dimension times(std::int64_t by) const noexcept {
    return bounded() ? Dimension(capacity * by, count, static_cast<std::int32_t>(factor * by)) : Dimension(capacity * by);
  }
  friend constexpr bool operator==(const Dimension&, const Dimension&) = default;
};

/// Up to five axes, row-major, no strides: data that is not contiguous is described by several tensors.
class Shape {
 public:
  static constexpr std::size_t max_rank = 5;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<Dimension> dimensions) {
    for (const auto& dimension : dimensions) dimensions_[rank_++] = dimension;
  }
  constexpr void push_back(Dimension dimension) { dimensions_.at(rank_++) = dimension; }

  [[nodiscard]] constexpr std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] constexpr const Dimension& dimension(std::size_t axis) const { return dimensions_.at(axis); }
  [[nodiscard]] constexpr Dimension& dimension(std::size_t axis) { return dimensions_.at(axis); }
  /// Size (or capacity) of one axis.
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t axis) const { return dimensions_.at(axis).capacity; }
  /// Product of all sizes; 1 for a scalar.
  [[nodiscard]] constexpr std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis < rank_; ++axis) product *= dimensions_[axis].capacity;
    return product;
  }
  /// The sizes alone, as files store them.
  [[nodiscard]] std::vector<std::int64_t> sizes() const;
  [[nodiscard]] constexpr bool bounded() const noexcept {
    for (std::size_t axis = 0; axis < rank_; ++axis)
      if (dimensions_[axis].bounded()) return true;
    return false;
  }
  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t axis = 0; axis < a.rank_; ++axis)
      if (!(a.dimensions_[axis] == b.dimensions_[axis])) return false;
    return true;
  }

 private:
  std::array<Dimension, max_rank> dimensions_{};
  std::size_t rank_ = 0;
};

/// "[2048, 512]"; a bounded axis prints as "<=2048".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace millrace::kernels
