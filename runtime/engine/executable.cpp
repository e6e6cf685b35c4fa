#include "runtime/engine/executable.hpp"

#include <algorithm>
#include <utility>

namespace millrace::runtime {

Executable::Executable(std::shared_ptr<const ProgramSet> programs, BackwardMode mode, const ParameterPlaces& places,
                       const kernels::Processor& processor)
    : programs_(std::move(programs)), plan_(plan_memory(*programs_, mode, places, processor)), executor_(*programs_, plan_) {}

std::size_t Executable::workspace_bytes() const noexcept {
  return std::max(bytes(Region::workspace), *std::max_element(plan_.workspace_bytes.begin(), plan_.workspace_bytes.end()));
}

void Executable::run(ProgramKind kind, const kernels::ExecutionContext& context, const Bindings& bindings, OperationHook* hook) {
  auto& device = context.device_context();
  if (!device.graphs() || hook != nullptr) return executor_.run(kind, context, bindings, hook);
  graphs_.run(device, kind, executor_.touched(kind, bindings), [&] { executor_.run(kind, context, bindings); });
}

void Executable::run_segment(ProgramKind kind, std::size_t segment, const kernels::ExecutionContext& context, const Bindings& bindings,
                             OperationHook* hook, ExchangePort* port) {
  if (segments(kind).size() == 1 && segment == 0) return run(kind, context, bindings, hook);
  executor_.run_segment(kind, segment, context, bindings, hook, port);
}

}  // namespace millrace::runtime
