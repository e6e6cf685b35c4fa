#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// A copy between the memory in which programs compute and host memory, as two operations: the first begins the copy, the second waits
/// for its end. The result of the second is also an operand of the first, because its memory is in use as soon as the first has
/// begun.
class Transfer : public OperationRule {
 public:
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override { return {inputs.front()}; }
  Cost cost(std::span<const ValueType>, std::span<const ValueType>, const Attributes&) const override { return {}; }
};

/// Operands: the source and the destination.
class Begin final : public Transfer {
 public:
  Begin(std::string_view name, kernels::StreamKind lane) : name_(name), lane_(lane) {}
  std::string_view name() const override { return name_; }
  KernelRows kernel_rows() const override { return {}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor>,
           const Attributes&, kernels::Scratch) const override {
    context.device_context().wait(lane_, kernels::StreamKind::compute);
    context.device_context().copy(lane_, inputs[1].data, inputs[0].data, inputs[0].bytes());
  }

 private:
  std::string_view name_;
  kernels::StreamKind lane_;
};

/// Operand: the source. Result: the destination.
class End final : public Transfer {
 public:
  End(std::string_view name, kernels::StreamKind lane) : name_(name), lane_(lane) {}
  std::string_view name() const override { return name_; }
  KernelRows kernel_rows() const override { return {}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor>, std::span<const kernels::Tensor>, const Attributes&,
           kernels::Scratch) const override {
    context.device_context().wait(kernels::StreamKind::compute, lane_);
  }

 private:
  std::string_view name_;
  kernels::StreamKind lane_;
};

}  // namespace

const OperationRule& offload_begin_rule() {
  static const Begin rule("offload", kernels::StreamKind::copy_out);
  return rule;
}
const OperationRule& offload_end_rule() {
  static const End rule("offload_end", kernels::StreamKind::copy_out);
  return rule;
}
const OperationRule& fetch_begin_rule() {
  static const Begin rule("fetch", kernels::StreamKind::copy_in);
  return rule;
}
const OperationRule& fetch_end_rule() {
  static const End rule("fetch_end", kernels::StreamKind::copy_in);
  return rule;
}

}  // namespace millrace::runtime
