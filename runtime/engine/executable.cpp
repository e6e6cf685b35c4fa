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

void Executable::run(ProgramKind kind, const kernels::ExecutionContext& context, const Bindings& bindings, OperationHook* hook,
                     std::span<const std::int64_t> counts) {
  auto& device = context.device_context();
  if (!device.graphs() || hook != nullptr || !counts.empty()) return executor_.run(kind, context, bindings, hook, counts);
  graphs_.run(device, kind, executor_.touched(kind, bindings), [&] { executor_.run(kind, context, bindings); });
}

}  // namespace millrace::runtime
