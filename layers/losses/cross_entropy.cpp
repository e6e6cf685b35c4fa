#include "layers/losses/cross_entropy.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

runtime::ValueId weight(runtime::ProgramBuilder& builder, const HeadTable& table) {
  return builder.parameter(table.name, {table.vocabulary, table.width}, table.use);
}

}  // namespace

runtime::ValueId head_loss(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table, double z_loss) {
  return runtime::linear_cross_entropy(builder, h, weight(builder, table), builder.batch("targets"), static_cast<float>(z_loss),
                                       "cross_entropy");
}

runtime::ValueId head_logits(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table) {
  return runtime::logits(builder, h, weight(builder, table), "logits");
}

}  // namespace millrace::layers
