#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "layers/models/model.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::layers::testing {

/// Where a model in bf16 rounds: how often on the path to each value that a program writes in bf16, and which parameters it reads
/// in bf16. Derived from the programs themselves, so a new rounding in them is counted.
struct Roundings {
  std::map<std::string, int> values;
  std::set<std::string> parameters;

  Roundings(const ModelConfig& config, StageOptions options);
};

/// The root mean square rounding of a value to bf16, at a random place between two neighbours: x lies in [2ᵉ, 2ᵉ⁺¹), neighbours
/// are 2ᵉ⁻⁷ apart, so the error is uniform over ±2ᵉ⁻⁸. `draw` is uniform in [−1, 1).
[[nodiscard]] float disturbed(float x, float draw);
/// x rounded to bf16.
[[nodiscard]] float rounded(float x);

/// Perturbs an fp32 model as roundings to bf16 would: every value that the bf16 model rounds gets that many random roundings when
/// it is written. One run with it is a draw from the distribution of correct bf16 results.
class RoundingNoise final : public runtime::OperationHook {
 public:
  RoundingNoise(const Roundings& roundings, std::uint64_t seed) : roundings_(roundings), state_(seed * 2 + 1) {}
  void after(const Call& call) override;
  /// Values that were perturbed so far, by name.
  [[nodiscard]] const std::set<std::string>& met() const { return met_; }

 private:
  float draw();

  const Roundings& roundings_;
  std::uint64_t state_;
  std::set<std::string> met_;
};

}  // namespace millrace::layers::testing
