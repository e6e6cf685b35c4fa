#include "runtime/data/batch_source.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/mix.hpp"
#include "runtime/data/permutation.hpp"

namespace millrace::runtime {
namespace {

// Any constant will do: evaluation batches do not depend on the run's seed.
constexpr std::uint64_t evaluation_seed = 0x6d696c6c72616365ULL;

/// The part of a batch that holds one row.
BatchView row_of(const BatchView& batch, std::int64_t row, std::int64_t sequence) {
  return part_of(batch, static_cast<std::size_t>(row * sequence), static_cast<std::size_t>(sequence));
}

/// Dropout key of a sample of the run. Two samples share a key with a probability of 2⁻³¹.
std::int32_t sample_key(std::uint64_t seed, std::int64_t sample) {
  return static_cast<std::int32_t>(1 + (splitmix(splitmix(seed) ^ static_cast<std::uint64_t>(sample)) >> 33) % 0x7fffffff);
}

/// Calls body(begin, end, border) for every document of a row, the `count` tokens from `first` on: its places in the row, and whether its
/// last token is there, whose target is masked.
template <class Body>
void for_each_document(const TokenStream& stream, std::int64_t first, std::int64_t count, Body body) {
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t border = stream.next_border(first + begin, first + count) - first;
    const std::int64_t end = std::min(border + 1, count);
    body(begin, end, border < count);
    begin = end;
  }
}

/// Writes `count` tokens from index `first` on with their targets, segments and positions; the rest of the row, and every other
/// field, is padding. Token first + count must be inside the stream.
void fill_row(const TokenStream& stream, std::int64_t first, std::int64_t count, bool packing, const BatchView& row) {
  pad(row);
  const auto inputs = row.tokens.first(static_cast<std::size_t>(count));
  stream.read(first, inputs);
  std::copy(inputs.begin() + 1, inputs.end(), row.targets.begin());
  stream.read(first + count, row.targets.subspan(static_cast<std::size_t>(count - 1), 1));

  std::int32_t segment = 1;
  for_each_document(stream, first, count, [&](std::int64_t begin, std::int64_t end, bool border) {
    const std::int64_t origin = packing ? begin : 0;
    for (std::int64_t i = begin; i < end; ++i) {
      row.positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i - origin);
      row.segments[static_cast<std::size_t>(i)] = packing ? segment : 1;
    }
    if (border) row.targets[static_cast<std::size_t>(end - 1)] = -1;
    ++segment;
  });
}

/// Counts the tokens of [first, first + count) whose target is not masked.
std::int64_t count_targets(const TokenStream& stream, std::int64_t first, std::int64_t count) {
  std::int64_t valid = count;
  for (std::int64_t border = stream.next_border(first, first + count); border < first + count;) {
    --valid;
    border = stream.next_border(border + 1, first + count);
  }
  return valid;
}

/// Counts the targets that the modules of multi-token prediction have in a row.
std::int64_t count_of_modules(const TokenStream& stream, std::int64_t first, std::int64_t count, bool packing, const MtpModules& modules) {
  std::int64_t found = 0;
  if (modules.last < modules.first) return found;
  for_each_document(stream, first, count, [&](std::int64_t begin, std::int64_t end, bool border) {
    found += count_mtp_targets(begin, end - begin - (border ? 1 : 0), packing, modules);
  });
  return found;
}

}  // namespace

// -- training ---------------------------------------------------------------

namespace {

std::vector<double> weights_of(const std::vector<WeightedStream>& streams) {
  std::vector<double> weights;
  for (const WeightedStream& stream : streams) weights.push_back(stream.weight);
  return weights;
}

}  // namespace

BatchSource::BatchSource(const std::vector<WeightedStream>& streams, const BatchShape& shape) : shape_(shape), blend_(weights_of(streams)) {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const auto& [stream, weight, name] = streams[i];
    const std::int64_t windows = (stream->size() - 1) / shape.sequence;
    MILLRACE_CHECK(
        windows >= 1, ExitCode::data, "data",
        "{}{} for training, expected {} or more (one window of train.sequence = {} and its last target): its files are too short",
        streams.size() > 1 ? fmt::format("source {}: ", name) : "", counted(stream->size(), "token"), shape.sequence + 1, shape.sequence);
    sources_.push_back({stream, windows, shape.seed ^ mix(i), name});  // mix(0) is 0: the first has the seed itself
  }
}

std::int64_t BatchSource::windows() const noexcept {
  std::int64_t windows = 0;
  for (const Source& source : sources_) windows += source.windows;
  return windows;
}

BatchSource::Window BatchSource::window_of(std::int64_t sample) const noexcept {
  const auto [number, index] = blend_(sample);
  const Source& source = sources_[number];
  const auto epoch = static_cast<std::uint64_t>(index / source.windows);
  return {*source.stream, Permutation(source.windows, source.seed, epoch)(index % source.windows) * shape_.sequence};
}

void BatchSource::fill(std::int64_t step, std::int64_t microbatch, const BatchView& batch) const {
  const std::int64_t first_sample = (shape_.microbatches.before(step) + microbatch) * shape_.rows;
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    const Window window = window_of(first_sample + row);
    const BatchView out = row_of(batch, row, shape_.sequence);
    fill_row(window.stream, window.first, shape_.sequence, shape_.packing, out);
    std::ranges::fill(out.samples, sample_key(shape_.seed, first_sample + row));
  }
}

template <class Body>
void BatchSource::for_each_window(std::int64_t step, Body body) const {
  const std::int64_t first = shape_.microbatches.before(step) * shape_.rows, samples = shape_.microbatches.microbatches(step) * shape_.rows;
  for (std::int64_t i = 0; i < samples; ++i) body(window_of(first + i));
}

std::int64_t BatchSource::valid_targets(std::int64_t step) const {
  std::int64_t valid = 0;
  for_each_window(step, [&](const Window& window) { valid += count_targets(window.stream, window.first, shape_.sequence); });
  return valid;
}

std::int64_t BatchSource::mtp_targets(std::int64_t step) const {
  std::int64_t found = 0;
  for_each_window(step, [&](const Window& window) {
    found += count_of_modules(window.stream, window.first, shape_.sequence, shape_.packing, shape_.modules);
  });
  return found;
}

DataProgress BatchSource::progress(std::int64_t steps) const {
  const std::int64_t samples = shape_.microbatches.before(steps) * shape_.rows;
  DataProgress progress{samples * shape_.sequence, {}};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::int64_t own = blend_.count(i, samples);
    progress.sources.push_back(
        {sources_[i].name, own * shape_.sequence, static_cast<double>(own) / static_cast<double>(sources_[i].windows)});
  }
  return progress;
}

// -- evaluation -------------------------------------------------------------

EvaluationSource::EvaluationSource(const TokenStream& stream, const BatchShape& shape)
    : stream_(stream), shape_(shape), windows_((stream.size() - 1 + shape.sequence - 1) / shape.sequence) {
  MILLRACE_CHECK(stream.size() >= 2, ExitCode::data, "data", "{} held out for evaluation, expected 2 or more: see data.held_out",
                 counted(stream.size(), "token"));
}

std::int64_t EvaluationSource::microbatches() const noexcept { return (windows_ + shape_.rows - 1) / shape_.rows; }

std::int64_t EvaluationSource::window_of(std::int64_t sample) const noexcept { return Permutation(windows_, evaluation_seed, 0)(sample); }

void EvaluationSource::fill(std::int64_t microbatch, const BatchView& batch) const {
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    const std::int64_t sample = microbatch * shape_.rows + row;
    const BatchView out = row_of(batch, row, shape_.sequence);
    if (sample >= windows_) {
      pad(out);
      continue;
    }
    const std::int64_t first = window_of(sample) * shape_.sequence;
    fill_row(stream_, first, std::min(shape_.sequence, stream_.size() - 1 - first), shape_.packing, out);
  }
}

template <class Body>
void EvaluationSource::for_each_window(std::int64_t first_microbatch, std::int64_t count, Body body) const {
  const std::int64_t last = std::min((first_microbatch + count) * shape_.rows, windows_);
  for (std::int64_t sample = first_microbatch * shape_.rows; sample < last; ++sample) {
    const std::int64_t first = window_of(sample) * shape_.sequence;
    body(first, std::min(shape_.sequence, stream_.size() - 1 - first));
  }
}

std::int64_t EvaluationSource::valid_targets(std::int64_t first_microbatch, std::int64_t count) const {
  std::int64_t valid = 0;
  for_each_window(first_microbatch, count,
                  [&](std::int64_t first, std::int64_t tokens) { valid += count_targets(stream_, first, tokens); });
  return valid;
}

std::int64_t EvaluationSource::mtp_targets(std::int64_t first_microbatch, std::int64_t count, int module) const {
  std::int64_t found = 0;
  MtpModules modules = shape_.modules;
  if (module > 0) modules.first = modules.last = module;
  for_each_window(first_microbatch, count, [&](std::int64_t first, std::int64_t tokens) {
    found += count_of_modules(stream_, first, tokens, shape_.packing, modules);
  });
  return found;
}

}  // namespace millrace::runtime
