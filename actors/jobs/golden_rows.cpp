#include "actors/jobs/golden_rows.hpp"

#include <span>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

constexpr const char* rows_component = "actors.parity";

struct Integers {
  std::size_t steps = 1, rows = 0, sequence = 0;
  std::vector<std::int32_t> values;  // [steps, rows, sequence]
  [[nodiscard]] std::vector<std::int32_t> row(std::size_t step, std::size_t row) const {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>((step * rows + row) * sequence);
    return {begin, begin + static_cast<std::ptrdiff_t>(sequence)};
  }
  [[nodiscard]] bool same_shape(const Integers& other) const {
    return steps == other.steps && rows == other.rows && sequence == other.sequence;
  }
};

/// An integer tensor [rows, sequence] or [steps, rows, sequence].
Integers read_integers(const runtime::SafetensorsFile& golden, const char* name) {
  const auto& entry = golden.at(name);
  const auto& shape = entry.shape;
  const bool wide = entry.dtype == runtime::FileDType::i64;
  bool fits = (wide || entry.dtype == runtime::FileDType::i32) && (shape.size() == 2 || shape.size() == 3);
  for (const auto size : shape) fits = fits && size > 0;
  MILLRACE_CHECK(fits, ExitCode::model, rows_component,
                 "{}: {} has {} axes, expected int64 or int32 [rows, sequence] or [steps, rows, sequence]", golden.path(), name,
                 shape.size());
  Integers result;
  if (shape.size() == 3) result.steps = static_cast<std::size_t>(shape[0]);
  result.rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  result.sequence = static_cast<std::size_t>(shape.back());
  const std::size_t count = result.steps * result.rows * result.sequence;
  std::vector<std::int64_t> long_values(wide ? count : 0);
  result.values.resize(count);
  golden.read_bytes(entry, 0, wide ? std::as_writable_bytes(std::span(long_values)) : std::as_writable_bytes(std::span(result.values)));
  for (std::size_t i = 0; i < long_values.size(); ++i) {
    MILLRACE_CHECK(long_values[i] >= -1 && long_values[i] <= INT32_MAX, ExitCode::model, rows_component,
                   "{}: {}[{}] = {}, expected a token", golden.path(), name, i, long_values[i]);
    result.values[i] = static_cast<std::int32_t>(long_values[i]);
  }
  return result;
}

}  // namespace

std::vector<std::vector<GivenRow>> read_golden_rows(const runtime::SafetensorsFile& golden, std::int64_t vocabulary) {
  const Integers tokens = read_integers(golden, "input_ids");
  for (const auto token : tokens.values)
    MILLRACE_CHECK(token >= 0 && token < vocabulary, ExitCode::model, rows_component, "{}: a token {} in input_ids, the vocabulary has {}",
                   golden.path(), token, vocabulary);
  std::vector<std::vector<GivenRow>> steps(tokens.steps);
  for (std::size_t step = 0; step < tokens.steps; ++step)
    for (std::size_t row = 0; row < tokens.rows; ++row) steps[step].push_back(GivenRows::document(tokens.row(step, row)));
  if (golden.find("segment_ids") == nullptr) return steps;
  const Integers positions = read_integers(golden, "positions"), segments = read_integers(golden, "segment_ids"),
                 targets = read_integers(golden, "targets"), counted = read_integers(golden, "targets_segmentation");
  for (const Integers* other : {&positions, &segments, &targets, &counted})
    MILLRACE_CHECK(other->same_shape(tokens), ExitCode::model, rows_component,
                   "{}: positions, segment_ids, targets and targets_segmentation, expected in the shape of input_ids", golden.path());
  for (std::size_t step = 0; step < tokens.steps; ++step) {
    for (std::size_t r = 0; r < tokens.rows; ++r) {
      GivenRow& row = steps[step][r];
      row.positions = positions.row(step, r);
      row.segments = segments.row(step, r);
      row.targets = targets.row(step, r);
      const auto mask = counted.row(step, r);
      for (std::size_t i = 0; i < mask.size(); ++i)
        if (mask[i] == 0) row.targets[i] = -1;
    }
  }
  return steps;
}

}  // namespace millrace::actors
