#include "layers/losses/output_loss.hpp"

#include <fmt/ranges.h>

#include <map>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::layers {
namespace {

constexpr const char* loss_component = "layers.losses";

std::map<std::string, OutputLoss>& known_losses() {
  static std::map<std::string, OutputLoss> losses{{"cross_entropy", cross_entropy}};
  return losses;
}

}  // namespace

void add_output_loss(const std::string& name, OutputLoss loss) {
  const bool is_new = known_losses().emplace(name, std::move(loss)).second;
  MILLRACE_CHECK(is_new, ExitCode::config, loss_component, "a loss {} is added twice, expected another name", name);
}

runtime::ValueId output_loss(runtime::ProgramBuilder& builder, const std::string& name, const HeadOperands& head,
                             runtime::ValueId targets) {
  const auto& losses = known_losses();
  const auto found = losses.find(name);
  if (found != losses.end()) return found->second(builder, head, targets);
  std::vector<std::string> names;
  for (const auto& [known, loss] : losses) names.push_back(known);
  fail(ExitCode::config, loss_component, "train.loss = {}, expected {}, or a loss that this program adds (add_output_loss){}", name,
       fmt::join(names, ", "), did_you_mean(name, names));
}

runtime::ValueId trained_logits(runtime::ProgramBuilder& builder, const HeadOperands& head) {
  const auto refuse = [](bool has, const std::string& what) {
    MILLRACE_CHECK(!has, ExitCode::model, loss_component,
                   "{}, expected train.loss = cross_entropy: a loss on plain logits has no such step", what);
  };
  refuse(head.form.scale != 1.0F, fmt::format("the model's head multiplies its logits by {}", head.form.scale));
  refuse(head.form.soft_cap != 0.0F, fmt::format("the model's head caps its logits at {}", head.form.soft_cap));
  refuse(head.form.round_table, "the model's head rounds its table");
  refuse(head.form.z_loss != 0.0F, fmt::format("train.z_loss = {}", head.form.z_loss));
  return runtime::to_f32(builder, runtime::linear(builder, head.h, head_weight(builder, head.table), "logits"), "logits_f32");
}

}  // namespace millrace::layers
