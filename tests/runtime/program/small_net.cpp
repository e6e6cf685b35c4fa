#include "tests/runtime/program/small_net.hpp"

#include <cmath>

namespace millrace::runtime::testing {
namespace {

ValueId labelled(ProgramBuilder& builder, ValueId value, const char* label) {
  builder.label(value, label);
  return value;
}

ValueId attention_block(ProgramBuilder& builder, const SmallNet& net, const std::string& scope, ValueId h) {
  const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return builder.parameter(scope + "." + name, {rows, columns});
  };
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < net.head_dim / 2; ++i)
    frequencies.push_back(std::pow(100.0F, -2.0F * static_cast<float>(i) / static_cast<float>(net.head_dim)));
  const auto table = builder.constant("inverse_frequencies", frequencies);
  const auto positions = builder.batch("positions");
  auto q = linear(builder, h, weight("q", net.heads * net.head_dim, net.width), "q");
  auto k = linear(builder, h, weight("k", net.key_heads * net.head_dim, net.width), "k");
  const auto v = labelled(builder, linear(builder, h, weight("v", net.key_heads * net.head_dim, net.width), "v"), "value_proj");
  q = labelled(builder, rope(builder, q, positions, table, {}, "q_rope"), "query_proj");
  k = labelled(builder, rope(builder, k, positions, table, {}, "k_rope"), "key_proj");
  const auto sinks = net.sinks ? builder.parameter(scope + ".sinks", {net.heads}, in_f32) : ValueId{};
  const auto o = labelled(
      builder, attention(builder, q, k, v, builder.batch("segments"), {.head_dim = net.head_dim, .scale = 0.5F}, "attention", sinks),
      "context");
  return labelled(builder, linear(builder, o, weight("o", net.width, net.heads * net.head_dim), "o"), "out_proj");
}

ValueId mlp_block(ProgramBuilder& builder, const SmallNet& net, const std::string& scope, ValueId h) {
  const auto gate = labelled(builder, linear(builder, h, builder.parameter(scope + ".gate", {net.hidden, net.width}), "gate"), "mlpwi_0");
  const auto up = labelled(builder, linear(builder, h, builder.parameter(scope + ".up", {net.hidden, net.width}), "up"), "mlpwi_1");
  const auto y = swiglu(builder, gate, up, "swiglu");
  return labelled(builder, linear(builder, y, builder.parameter(scope + ".down", {net.width, net.hidden}), "down"), "mlpwo");
}

ValueId layer(ProgramBuilder& builder, const SmallNet& net, int number, ValueId x) {
  const auto scope = "layers." + std::to_string(number);
  builder.enter(number, scope);
  const auto norm = [&](const char* name, ValueId value) {
    return rms_norm(builder, value, builder.parameter(scope + "." + name, {net.width}, in_f32), {1e-5F}, name);
  };
  x = add(builder, x, attention_block(builder, net, scope, norm("norm_1", x)), "residual_1");
  return add(builder, x, mlp_block(builder, net, scope, norm("norm_2", x)), "residual_2");
}

}  // namespace

ForwardProgram build(const SmallNet& net) {
  ProgramBuilder builder({net.compute, net.rows, net.sequence});
  auto x = net.first ? embedding(builder, builder.batch("tokens"), builder.parameter("table", {net.vocabulary, net.width}), "embedding")
                     : builder.boundary_in(net.width);
  for (int number = net.first_layer; number < net.end_layer; ++number) x = layer(builder, net, number, x);
  builder.enter(-1, "");
  if (!net.last) {
    builder.set_boundary_out(x);
    return builder.finish();
  }
  x = rms_norm(builder, x, builder.parameter("norm", {net.width}, in_f32), {1e-5F}, "norm");
  const auto head = builder.parameter("table", {net.vocabulary, net.width}, {.use = 1});
  if (net.logits)
    builder.set_logits(logits(builder, x, head, {}, "logits"));
  else
    builder.loss_term({.name = "lm_loss"},
                      linear_cross_entropy(builder, x, head, builder.batch("targets"), {.z_loss = net.z_loss}, "loss"));
  return builder.finish();
}

const std::vector<std::string>& labels() {
  static const std::vector<std::string> words = {"query_proj", "key_proj", "value_proj", "context",
                                                 "out_proj",   "mlpwi_0",  "mlpwi_1",    "mlpwo"};
  return words;
}

}  // namespace millrace::runtime::testing
