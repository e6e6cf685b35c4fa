#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/dtype.hpp"
#include "kernels/base/shape.hpp"
#include "kernels/scale_heads.hpp"

namespace millrace::runtime {

/// Index of a value in its stage's table. Every value is written once (SSA), except accumulators, which are only added to.
struct ValueId {
  std::int32_t index = -1;
  [[nodiscard]] bool valid() const noexcept { return index >= 0; }
  friend bool operator==(ValueId, ValueId) = default;
};

/// The origin of a value.
enum class Role : std::uint8_t {
  intermediate,  // the result of an operation
  batch,         // a field of the microbatch: tokens, positions, segments, targets
  boundary_in,   // the activation from the previous stage
  gradient_in,   // the gradient from the next stage
  parameter,     // a weight in the form in which the program computes with it
  accumulator,   // the fp32 gradient sum (parameter, use) that weight gradients are added to
  scalar,        // known only at run time: 1 / valid targets
  constant,      // a table fixed by the model, such as rotary frequencies
};

struct ValueType {
  kernels::DType dtype = kernels::DType::f32;
  kernels::Shape shape;
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

/// The form of a parameter in files if it differs from that in programs: with axes that programs merge into one, as the transposed
/// matrix, or as several tensors that programs see as one, stacked along the first axis (the weights of experts).
struct StoredForm {
  kernels::Shape shape;            // of the tensor in files, or of each part
  bool transposed = false;         // it, or each part, is stored transposed, as a matrix of its first axis by all others
  std::vector<std::string> parts;  // names of the tensors that are stacked; empty: one tensor under the parameter's name
  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

/// Which experts a weight belongs to, if it has one part for each expert along its first axis: experts [first, first + shape[0]) of the
/// `whole` that the model has. A rank may hold only some of them.
struct ExpertSlice {
  std::int64_t first = 0;
  std::int64_t whole = 0;  // 0: it is no weight of experts
  [[nodiscard]] bool present() const noexcept { return whole > 0; }
  friend bool operator==(const ExpertSlice&, const ExpertSlice&) = default;
};

/// The shape of the whole tensor, of which a weight of shape `own` has these experts; `own` for any other weight.
[[nodiscard]] inline kernels::Shape whole_shape(const kernels::Shape& own, const ExpertSlice& experts) {
  if (!experts.present()) return own;
  kernels::Shape whole{experts.whole};
  for (std::size_t axis = 1; axis < own.rank(); ++axis) whole.push_back(own.dimension(axis));
  return whole;
}

/// The ranks that share the experts of a layer, each the owner of as many: `member` has experts [member · E / members, …).
struct ExpertGroup {
  int members = 1;
  int member = 0;
  double capacity = 0;  // rows that a member has room for, over the choices of a microbatch's tokens; 0: for all that it may get
  friend bool operator==(const ExpertGroup&, const ExpertGroup&) = default;
};

/// The groups of rows that a table of offsets i32 [S · experts + 1] separates: those of S sources, of each the rows of experts
/// [first, first + experts) one after another. Rows [table[g], table[g + 1]) are of source g / experts and of expert
/// first + g mod experts.
struct ExpertRows {
  std::int64_t first = 0, experts = 0;  // experts 0: it is no such table
  [[nodiscard]] bool present() const noexcept { return experts > 0; }
  friend bool operator==(const ExpertRows&, const ExpertRows&) = default;
};

/// A matrix from which the queries or keys of an attention are computed, which QK-clip scales by the scores of its heads.
struct ScoreMatrix {
  std::string scope;             // of the observation of these scores; empty: it is none
  kernels::HeadOutputs outputs;  // how its outputs belong to heads
  friend bool operator==(const ScoreMatrix&, const ScoreMatrix&) = default;
};

/// The layout in which a program reads a weight: row-major, or packed for matrix products (kernels/packing.hpp), plain or
/// transposed.
enum class WeightForm : std::uint8_t { plain, packed, packed_turned };

struct Value {
  ValueType type;
  Role role = Role::intermediate;
  std::string name;  // unique in its table for a role and use; for a parameter and its accumulators the name of the checkpoint's tensor
  std::vector<std::string> labels;  // names for rematerialisation policies and break points: query_proj, mlpwo …
  int layer = -1;                   // decoder layer; -1 if outside of one
  int use = 0;                      // for a parameter or accumulator: 0 embedding (and everything untied), 1 output head of a tied table
  std::vector<float> data;          // for a constant
  StoredForm stored;                // for a parameter
  double active = 1;                // for a parameter: the share of the tokens that it is multiplied with; K / E for experts
  ExpertSlice experts = {};         // for a parameter or accumulator: the experts whose weights it has
  ExpertRows expert_rows = {};      // for a table of offsets: the rows that it separates
  ValueId rows_by = {};             // for rows in the order of experts: their table; see runtime/passes/row_groups.hpp
  std::string router = {};          // for a bias by which a router chooses: the scope of its observation expert_load; empty: it is none
  ScoreMatrix scores = {};          // for a matrix that QK-clip scales
  bool trained = true;              // for a parameter: false if no gradient may flow to it and optimizers leave it as it is
  WeightForm form = WeightForm::plain;  // for a parameter; one that is read in two forms is two values
  bool offloaded = false;               // in host memory, even if the program computes on a GPU
};

}  // namespace millrace::runtime
