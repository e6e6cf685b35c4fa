#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/dtype.hpp"
#include "kernels/base/shape.hpp"

namespace millrace::runtime {

/// Index of a value in its stage's table. Every value is written once (SSA), except accumulators, which only accumulate.
struct ValueId {
  std::int32_t index = -1;
  [[nodiscard]] bool valid() const noexcept { return index >= 0; }
  friend bool operator==(ValueId, ValueId) = default;
};

/// Where a value comes from.
enum class Role : std::uint8_t {
  intermediate,  // an operation writes it
  batch,         // tokens, positions, segments, targets of the microbatch
  boundary_in,   // the activation that arrives from the stage before
  gradient_in,   // the gradient that arrives from the stage after
  parameter,     // a weight as the program computes with it
  accumulator,   // the fp32 slot (parameter, use) that weight gradients add into
  scalar,        // known only at run time: 1 / valid targets
  constant,      // a table that the model fixes: rotary frequencies
};

struct ValueType {
  kernels::DType dtype = kernels::DType::f32;
  kernels::Shape shape;
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

/// A parameter as files have it, where that is not its shape in programs: axes that programs see as one, the transposed matrix, or several
/// tensors that programs see as one, stacked along the first axis (the weights of experts).
struct StoredForm {
  kernels::Shape shape;            // of the tensor, or of each part
  bool transposed = false;         // of a matrix, or of each part, then a matrix
  std::vector<std::string> parts;  // names of the tensors that are stacked; empty: one tensor under the parameter's name
  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

/// How a weight's values lie where a program reads them: as its type says, or packed for products (kernels/packing.hpp), itself or turned.
enum class WeightForm : std::uint8_t { plain, packed, packed_turned };

struct Value {
  ValueType type;
  Role role = Role::intermediate;
  std::string name;  // unique in its table for a role and use; a parameter's and its accumulators' is the checkpoint's tensor name
  std::vector<std::string> labels;      // what rematerialisation policies and break points speak of: query_proj, mlpwo …
  int layer = -1;                       // decoder layer, -1 outside of one
  int use = 0;                          // of a parameter or accumulator: 0 embedding (and everything untied), 1 output head of a tied table
  std::vector<float> data;              // of a constant
  StoredForm stored;                    // of a parameter
  WeightForm form = WeightForm::plain;  // of a parameter; one that is read in two forms is two values
  bool offloaded = false;               // lies in the host's memory, also where programs compute on a GPU
};

}  // namespace millrace::runtime
