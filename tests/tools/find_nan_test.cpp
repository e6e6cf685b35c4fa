#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/base/check.hpp"
#include "runtime/io/safetensors.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// Four ranks with one layer each, in one process; an operation of one layer runs four times per step and pass.
CommandResult train(const std::string& fault, const Words& more) {
  const Words words{"train",           "configs/runs/tiny.toml", "pipeline.ranks=4",
                    "train.threads=1", "train.steps=3",          "train.warmup_steps=1",
                    "data.text=docs",  "data.held_out=0",        "sample.tokens=0"};
  return run_millrace(joined(words, more), "MILLRACE_FAULT='" + fault + "'");
}

struct Planted {
  std::string value;   // where the NaN is injected, at its third run
  std::string action;  // the action that detects it
  std::string operation;
  std::string operands;  // what the message says about the operands
};

/// A weight, an activation and a gradient, each at three stages.
std::vector<Planted> planted() {
  std::vector<Planted> all;
  for (const std::string stage : {"0", "1", "3"}) {
    const auto layer = "layers." + stage + ".";
    // The last stage's backward reads its weights between its forwards.
    all.push_back({"model." + layer + "mlp.gate_proj.weight", stage == "3" ? "3F1" : stage + "F2", layer + "mlp.gate_proj",
                   "its operands have 1 in model." + layer + "mlp.gate_proj.weight"});
    all.push_back({layer + "self_attn.k_rope", stage + "F2", layer + "self_attn.k_rope", "its operands are finite"});
    all.push_back({layer + "self_attn.o_proj.dx", stage + "B2", layer + "self_attn.o_proj.dx", "its operands are finite"});
  }
  return all;
}

TEST(FindNan, NamesOperationAndMicrobatchWhenItIsToldToLook) {
  for (const auto& [value, action, operation, operands] : planted()) {
    const bool weight = value.starts_with("model.");
    const auto result = train("value=" + value + ":" + (weight ? "hit" : "from") + "=3:nan", {"train.find_nan=true", "run.directory="});
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::numerics)) << value << result.err;
    expect_parts(result.err, {"step 1, " + action + " on rank " + action.substr(0, 1) + ", samples " +
                                  (action.ends_with("1") ? "4 to 7" : "8 to 11") + ": operation " + operation + " (layer",
                              operands});
  }
}

TEST(FindNan, RunsABadStepOnceMoreToFindIt) {
  const TemporaryFolder folder;
  for (const auto& [value, action, operation, operands] : planted()) {
    // From its fifth run on, which is the first of step 2. A weight is read by the backward too, whose position depends on the
    // stage.
    const bool weight = value.starts_with("model.");
    const auto result = train("value=" + value + ":from=" + (weight ? "9" : "5") + ":nan", {"run.directory=" + (folder / "run")});
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::numerics)) << value << result.err;
    expect_parts(result.err,
                 {"step 2: ", "no parameter was changed. Run again: ", "step 2, ", operation, operands, "its inputs are in ", "/step-2-"});
    const auto begin = result.err.find("its inputs are in ") + 18;
    const runtime::SafetensorsFile inputs(result.err.substr(begin, result.err.find_first_of("\n", begin) - begin));
    EXPECT_GE(inputs.tensors().size(), 2U);
    std::filesystem::remove_all(folder / "run");
  }
}

TEST(FindNan, SaysWhenTheSecondRunIsFinite) {
  expect_failure(train("value=layers.2.mlp.swiglu:hit=6:nan", {"run.directory="}), ExitCode::numerics,
                 {"step 2: the loss of microbatch", "When the step was run again, all values were finite"});
}

TEST(FindNan, ChangesNoBit) {
  const auto plain = train("", {"run.directory=", "train.steps=1"}),
             looked = train("", {"run.directory=", "train.steps=1", "train.find_nan=true"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  ASSERT_EQ(looked.code, 0) << looked.err;
  const auto loss = plain.out.find("| loss ");
  ASSERT_NE(loss, std::string::npos);
  EXPECT_NE(looked.out.find(plain.out.substr(loss, 30)), std::string::npos) << looked.out;
}

}  // namespace
}  // namespace millrace::tests
