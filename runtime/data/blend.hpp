#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::runtime {

/// The order in which samples are taken from weighted sources: each sample comes from the source that is furthest behind its share of the
/// samples so far, the first of several, as in Megatron-LM's blending. There is no chance in it, and a source is never more than a few
/// samples away from its share.
///
/// Shares are whole numbers of a period of samples, in each of which every source has exactly its share. From the second period on the
/// order repeats. Weights such as 0.3 and 0.7, or 3 and 7, or numbers of tokens, give their exact ratio if it needs a period of at most a
/// million samples; other shares are rounded to millionths, with at least one for each source. So the place of a sample is looked up,
/// not counted from the run's first sample on. Const functions; any thread; nothing is allocated after construction.
class Blend {
 public:
  /// At least one weight; all above 0.
  explicit Blend(std::span<const double> weights);

  struct Place {
    std::size_t source = 0;
    std::int64_t index = 0;  // of the sample among those of its source
  };
  [[nodiscard]] Place operator()(std::int64_t sample) const noexcept;

  /// The number of samples among the first `samples` that come from `source`.
  [[nodiscard]] std::int64_t count(std::size_t source, std::int64_t samples) const noexcept;

  [[nodiscard]] double share(std::size_t source) const noexcept {
    return static_cast<double>(shares_[source]) / static_cast<double>(period_);
  }

 private:
  /// The sample of the first two periods whose source is that of `sample`.
  [[nodiscard]] std::int64_t within(std::int64_t sample) const noexcept { return sample < period_ ? sample : period_ + sample % period_; }

  std::vector<std::int64_t> shares_;    // of each source, in samples of a period
  std::int64_t period_ = 1;             // their sum
  std::vector<std::uint16_t> sources_;  // of each sample of two periods
  std::vector<std::uint32_t> before_;   // for the first sample of each block of them, by source: how many samples of it came before
};

}  // namespace millrace::runtime
