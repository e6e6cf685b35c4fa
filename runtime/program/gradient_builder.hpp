#pragma once

#include <string_view>
#include <vector>

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// What gradient rules write with: the forward operation at hand, the gradients that arrived, and an append into I or W.
class GradientBuilder {
 public:
  virtual ~GradientBuilder() = default;
  [[nodiscard]] virtual const Operation& forward() const = 0;
  [[nodiscard]] virtual const ValueType& type(ValueId value) const = 0;
  [[nodiscard]] virtual const Value& value(ValueId value) const = 0;
  /// Forward value `inputs[i]` / `outputs[i]` as the backward may read it (a recomputed twin where rematerialisation says so).
  [[nodiscard]] virtual ValueId input(std::size_t i) = 0;
  [[nodiscard]] virtual ValueId output(std::size_t i) = 0;
  /// Gradient of result i; invalid when nothing flows into it. The loss has none: rules of losses read `loss_scale()` instead.
  [[nodiscard]] virtual ValueId output_gradient(std::size_t i) = 0;
  /// f32 [1], 1 / valid targets of the step.
  [[nodiscard]] virtual ValueId loss_scale() = 0;
  /// True when the gradient of input i is wanted (activations: yes; batch fields, parameters and the first stage's inputs: no).
  [[nodiscard]] virtual bool wants(std::size_t i) const = 0;
  /// The fp32 slot of the parameter that is input i.
  [[nodiscard]] virtual ValueId accumulator(std::size_t i) = 0;
  /// Appends to the program being derived (I inside input_gradient, W inside weight_gradient).
  virtual std::vector<ValueId> append(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                                      std::string_view suffix) = 0;
  /// Appends to I an operation whose last results are those of the forward operation, in its order: I writes them and F leaves that
  /// operation out. Evaluation keeps it. Nothing else in F may read them.
  virtual std::vector<ValueId> append_for_forward(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                                                  std::string_view suffix) = 0;
  /// Appends an operation that adds into accumulators.
  virtual void append_accumulate(const OperationRule& rule, std::vector<ValueId> inputs, std::vector<ValueId> accumulators,
                                 Attributes attributes, std::string_view suffix) = 0;
  /// Declares `gradient` to be (a part of) the gradient of input i.
  virtual void add_gradient(std::size_t i, ValueId gradient) = 0;
};

}  // namespace millrace::runtime
