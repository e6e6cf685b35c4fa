#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::runtime {

/// Elements [first, first + count) of a tensor.
struct ElementRange {
  std::int64_t first = 0, count = 0;

  [[nodiscard]] std::int64_t end() const noexcept { return first + count; }
  [[nodiscard]] bool empty() const noexcept { return count == 0; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// A sum over a tensor is taken piece by piece, and the pieces' sums are added in order, so that it has the same bits whoever has which
/// pieces. Each expert of a weight of experts begins with a piece of its own.
inline constexpr std::int64_t piece_elements = std::int64_t{1} << 18;

/// The pieces of a tensor of `parts` equal parts (experts, or 1): which elements each has.
class Pieces {
 public:
  Pieces(std::int64_t elements, std::int64_t parts) noexcept : part_(parts == 0 ? 0 : elements / parts) {}

  /// The number of pieces of a part.
  [[nodiscard]] std::int64_t of_part() const noexcept { return (part_ + piece_elements - 1) / piece_elements; }
  /// The elements of a piece, counted over all parts.
  [[nodiscard]] ElementRange range(std::int64_t piece) const noexcept;
  /// The pieces [first, end) that make up a range, which must not cut one. Throws Error(internal) otherwise.
  struct Run {
    std::int64_t first = 0, end = 0;
  };
  [[nodiscard]] Run of(const ElementRange& elements) const;

 private:
  std::int64_t part_;  // elements of a part
};

/// The ranks that hold the same weights and divide the work on them: how many there are, and which of them this one is.
struct Replicas {
  int members = 1, own = 0;
  friend bool operator==(const Replicas&, const Replicas&) = default;
};

/// A tensor that replicas divide: between units of so many elements only, the last of which may be smaller.
struct DividedTensor {
  std::int64_t elements = 0, unit = 1;
  bool counts = true;  // false: nothing is updated, so that it is no load for its owner
};

/// Divides tensors that lie one after another between replicas, each of which gets one run of units, in the order of the members.
/// `loads` are the elements that each member has already; those who have less get more, and what they get is added. Returns by tensor, then
/// by member, which elements are its own. A function of its arguments alone, so that all members know what each has.
[[nodiscard]] std::vector<std::vector<ElementRange>> divide(std::span<const DividedTensor> tensors, std::span<std::int64_t> loads);

}  // namespace millrace::runtime
