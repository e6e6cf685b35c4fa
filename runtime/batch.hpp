#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// A view of one microbatch: an array of rows * sequence entries per field, row-major, owned by the caller.
struct BatchView {
  std::span<std::int32_t> tokens;      // the model's input
  std::span<std::int32_t> positions;   // position of the token in its document, counted within the row
  std::span<std::int32_t> segments;    // document of the token: 1, 2, … within a row; 0 for padding
  std::span<std::int32_t> targets;     // the next token; -1 if masked (document border, padding)
  std::span<std::int32_t> samples;     // dropout key: a positive number made from (seed, sample); 0: no dropout (evaluation)
  std::span<std::int32_t> compressed;  // the token's compressed id, in models with n-gram memories; else 0
};

/// One field of a batch: its name in programs and in the debugger, i32 [T], and its array in a view.
struct BatchField {
  std::string_view name;
  std::span<std::int32_t> BatchView::*array;
  std::int32_t padding = 0;  // the value in padded rows, and where no value is given
};

/// All fields, in the order in which they lie in memory. To add a field, add a member above, a row here, and the code that fills
/// it: programs read a field by its name, and memory plans, copies to a GPU, the debugger and replays iterate over this table.
inline constexpr std::array batch_fields{
    BatchField{"tokens", &BatchView::tokens},     BatchField{"positions", &BatchView::positions},
    BatchField{"segments", &BatchView::segments}, BatchField{"targets", &BatchView::targets, -1},
    BatchField{"samples", &BatchView::samples},   BatchField{"compressed", &BatchView::compressed},
};

/// The index of a field in the table; batch_fields.size() for an unknown name.
[[nodiscard]] constexpr std::size_t batch_field_index(std::string_view name) noexcept {
  return static_cast<std::size_t>(std::ranges::find(batch_fields, name, &BatchField::name) - batch_fields.begin());
}

/// A view of entries [first, first + count) of every field.
[[nodiscard]] inline BatchView part_of(const BatchView& batch, std::size_t first, std::size_t count) {
  BatchView part;
  for (const BatchField& field : batch_fields) part.*field.array = (batch.*field.array).subspan(first, count);
  return part;
}

/// Sets every field to its padding value.
inline void pad(const BatchView& batch) {
  for (const BatchField& field : batch_fields) std::ranges::fill(batch.*field.array, field.padding);
}

/// Copies all fields of `from` to `to`, which has the same number of entries.
inline void copy_batch(const BatchView& from, const BatchView& to) {
  for (const BatchField& field : batch_fields) std::ranges::copy(from.*field.array, (to.*field.array).begin());
}

/// A microbatch that owns its arrays.
class Batch : public BatchView {
 public:
  explicit Batch(std::size_t entries = 0) : values_(entries * batch_fields.size()) {
    for (std::size_t i = 0; i < batch_fields.size(); ++i) this->*batch_fields[i].array = std::span(values_).subspan(i * entries, entries);
  }
  Batch(std::int64_t rows, std::int64_t sequence) : Batch(static_cast<std::size_t>(rows * sequence)) {}
  /// Copies the arrays of a view.
  explicit Batch(const BatchView& other) : Batch(other.tokens.size()) { copy_batch(other, *this); }
  Batch(const Batch& other) : Batch(static_cast<const BatchView&>(other)) {}
  Batch(Batch&&) = default;
  Batch& operator=(Batch other) noexcept {
    values_.swap(other.values_);
    BatchView::operator=(other);
    return *this;
  }
  ~Batch() = default;

  [[nodiscard]] BatchView view() noexcept { return *this; }

 private:
  std::vector<std::int32_t> values_;  // one field after the other
};

}  // namespace millrace::runtime
