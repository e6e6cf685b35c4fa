#include "runtime/passes/pack_weights.hpp"

#include <map>
#include <utility>

#include "kernels/packing.hpp"

namespace millrace::runtime {
namespace {

/// Values of parameters in a packed form, made when they are first asked for.
class PackedValues {
 public:
  explicit PackedValues(ProgramSet& set) : set_(set) {}

  ValueId of(ValueId parameter, WeightForm form) {
    const auto [found, is_new] = known_.try_emplace({parameter.index, form});
    if (is_new) {
      Value value = set_.value(parameter);
      value.form = form;
      found->second = {static_cast<std::int32_t>(set_.values.size())};
      set_.values.push_back(std::move(value));
    }
    return found->second;
  }

 private:
  ProgramSet& set_;
  std::map<std::pair<std::int32_t, WeightForm>, ValueId> known_;
};

}  // namespace

void pack_weights(ProgramSet& set, kernels::Device device) {
  if (!kernels::packs_operands(device)) return;
  PackedValues packed_values(set);
  for (auto& program : set.programs)
    for (auto& operation : program) {
      const auto packed = operation.rule->packed();
      if (packed.rule == nullptr) continue;
      ValueId& weight = operation.inputs.at(packed.operand);
      if (set.value(weight).role != Role::parameter) continue;
      weight = packed_values.of(weight, packed.form);
      operation.rule = packed.rule;
    }
}

}  // namespace millrace::runtime
