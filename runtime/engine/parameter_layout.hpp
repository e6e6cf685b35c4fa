#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/dtype.hpp"
#include "kernels/base/shape.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/memory_plan.hpp"

namespace millrace::runtime {

/// One use of a weight by a stage of the rank, as declared by the model.
struct StageParameter {
  std::string name;
  kernels::Shape shape;
  StageId stage;
  int use = 0;         // 1: the output head's use of a tied table
  int order = 0;       // index of the tensor in the whole model's list
  bool decays = true;  // weight decay applies
  bool copy = false;   // belongs to a stage of a second replica: another rank holds the weight too
  /// Whether the stage's programs read it as it is, packed, and packed transposed (WeightForm).
  bool plain = true;
  std::array<bool, 2> packed{};
  bool in_f32 = false;  // programs read it in fp32 whatever they compute in, as the layer that declares it says
};

/// The parameters declared by a stage's programs, in their order, for stages that are written by hand. Matrices decay.
[[nodiscard]] std::vector<StageParameter> parameters_of(const ProgramSet& programs, StageId stage);

/// A weight that the rank holds once, whichever of its stages use it.
struct StoredParameter {
  struct Use {
    StageId stage;
    int use = 0;
    bool copy = false;
    std::size_t accumulator = 0;  // bytes from the start of an accumulator set
  };
  std::string name;
  kernels::Shape shape;
  int order = 0;
  bool decays = true;
  bool copied = false;     // has a bf16 copy that programs compute with, or from which its packed forms are made
  std::size_t offset = 0;  // in the region of masters, and in that of each optimizer state
  std::size_t copy = 0;    // in the region of copies; one shared place for all that are only read packed
  bool plain = false;      // the forms that programs read, as in StageParameter
  std::array<bool, 2> packed{};
  bool in_f32 = false;                       // as in StageParameter
  std::array<std::size_t, 2> packed_copy{};  // in the region of copies
  std::vector<Use> uses;                     // ascending; two if both uses of a tied table are on this rank

  [[nodiscard]] std::size_t elements() const noexcept { return static_cast<std::size_t>(shape.elements()); }
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * sizeof(float); }
  [[nodiscard]] bool has_use(int use) const noexcept;
  /// True on exactly one of the ranks that hold the tensor: its gradient counts in the norm, its values are written to
  /// checkpoints. For a tied table on two ranks that is the embedding's rank, for two replicas the first replica's.
  [[nodiscard]] bool is_owner() const noexcept;
};

/// Where a rank's weights, optimizer states and gradient slots lie, in model order. Immutable; nothing here owns memory.
class ParameterLayout {
 public:
  /// With `compute` bf16 every tensor that programs do not read in fp32 gets a copy; each packed form that a stage asks for is a copy too.
  /// Copies that are read only to make packed forms share one place, one after another. Throws Error(internal) for a use that is
  /// declared twice on the rank or with two shapes.
  ParameterLayout(const std::vector<StageParameter>& parameters, kernels::DType compute);

  [[nodiscard]] const std::vector<StoredParameter>& tensors() const noexcept { return tensors_; }
  /// Throws Error(internal) if the rank does not hold it.
  [[nodiscard]] const StoredParameter& at(std::string_view name) const;
  [[nodiscard]] const StoredParameter* find(std::string_view name) const noexcept;

  [[nodiscard]] std::size_t master_bytes() const noexcept { return master_bytes_; }  // of each optimizer state too
  [[nodiscard]] std::size_t copy_bytes() const noexcept { return copy_bytes_; }
  [[nodiscard]] std::size_t accumulator_bytes() const noexcept { return accumulator_bytes_; }  // of one set

  /// For plan_memory; the layout must outlive it.
  [[nodiscard]] ParameterPlaces places() const;

 private:
  std::vector<StoredParameter> tensors_;
  std::size_t master_bytes_ = 0, copy_bytes_ = 0, accumulator_bytes_ = 0;
};

}  // namespace millrace::runtime
