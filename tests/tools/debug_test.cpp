#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

const Words kRun{"configs/runs/tiny.toml", "pipeline.ranks=4", "train.threads=1", "train.steps=6",
                 "train.warmup_steps=1",   "data.text=docs",   "data.held_out=0", "sample.tokens=0"};

CommandResult debug(const TemporaryFolder& folder, const std::string& script, const Words& more = {}) {
  return run_millrace(joined({"debug", "--script", folder.write("script", script)}, joined(kRun, more)));
}

/// What was printed between this command and the next.
std::string answer(const std::string& out, const std::string& command) {
  const auto at = out.find("(millrace) " + command);
  if (at == std::string::npos) return "no such command: " + command;
  const auto begin = out.find('\n', at) + 1, end = out.find("(millrace) ", begin);
  return out.substr(begin, end - begin);
}

TEST(Debug, TheSessionOfTheDocsRuns) {
  const TemporaryFolder folder;
  const auto blocks = code_blocks(read_source("docs/debugging.md"), "commands");
  ASSERT_FALSE(blocks.empty());
  const auto script = std::regex_replace(blocks.front(), std::regex("swiglu\\.safetensors"), folder / "swiglu.safetensors");
  const auto result = debug(folder, script);
  ASSERT_EQ(result.code, 0) << result.err << result.out;
  const auto& out = result.out;
  expect_parts(answer(out, "where"), {"rank 0      0/8    [0F0]", "(1F0)", "rank 3 waits for the activation of microbatch 0 from stage 2"});
  expect_parts(answer(out, "step 3"), {"step 1, after ", "; next "});
  expect_parts(answer(out, "until 2F3"), {"step 1, before 2F3 on rank 2 (forward of stage 2, microbatch 3)"});
  expect_parts(answer(out, "step  "), {"step 1, after 2F3 on rank 2 (forward of stage 2, microbatch 3); next "});
  expect_parts(answer(out, "print layers.2.self_attn.v_proj[0:4, :8]"), {"f32 [4, 8] of [256, 16]  of 2F3 on rank 2", "[3, :]"});
  expect_parts(answer(out, "print layers.2.self_attn.v_proj[-1, 2]"), {"f32, element of [256, 16]"});
  expect_parts(answer(out, "ops 1B0"), {"1B0 on rank 1, backward of stage 1:", "  0  layers.1.mlp.down_proj.dw"});
  expect_parts(answer(out, "ops"), {"→   0  layers.2.input_layernorm", "12  layers.2.mlp.down_proj"});
  expect_parts(answer(out, "print layers.2.self_attn.v_proj"), {"f32 [256, 16]  of 2F3 on rank 2", "norm "});
  expect_parts(answer(out, "print tokens"), {"i32 [4, 64]  of microbatch 3"});
  expect_parts(answer(out, "print grad."), {"[80, 32]  gradient sum on rank 2"});
  expect_parts(answer(out, "queue"), {"stage 0 (rank 0) → 1 (1)", "gradient"});
  expect_parts(answer(out, "run"), {"step 1/6 | loss ", "break point 1", "step 2, 1B1 on rank 1", "before operation 2 of 22"});
  expect_parts(answer(out, "print layers.1.mlp.down_proj.dx"), {"[256, 80]  of 1B1 on rank 1"});
  expect_parts(answer(out, "op 2"), {"before operation 4 of 22"});
  expect_parts(answer(out, "diff"), {"identical to"});
  expect_parts(answer(out, "stats layers.1.mlp"), {"model.layers.1.mlp.up_proj.weight", "grad.model.layers.1.mlp.down_proj.weight"});
  expect_parts(answer(out, "hist"), {"1e-0", "####"});
  expect_parts(out, {"changed it:\nmodel.norm.weight"});
  expect_parts(answer(out, "back 2"), {"step 2, "});
  expect_parts(answer(out, "break  "), {"break point 1: stage 3 layer 3\nbreak point 2: when norm(layer 3) > 1000\nbreak point 3: nan"});
  expect_parts(answer(out, "until step 4"), {"step 4, before 0F0 on rank 0"});
  expect_parts(out, {"its operands have 1 in model.layers.2.mlp.up_proj.weight, the first nan at element 7", "on rank 2"});
}

TEST(Debug, HasTheBitsOfARunOnFourProcesses) {
  const TemporaryFolder folder;
  const auto result = debug(folder, "run\n", {"train.steps=3"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto run = folder / "run";
  const auto trained = run_millrace(joined(joined({"train"}, kRun), {"train.steps=3", "run.directory=" + run}), on_processes(4));
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::ifstream metrics(run + "/metrics.jsonl");
  int steps = 0;
  for (std::string text; std::getline(metrics, text);) {
    const auto record = nlohmann::json::parse(text);
    if (!record.contains("loss_hex")) continue;
    ++steps;
    expect_parts(result.out, {fmt::format("step {}/3 ", steps), record.at("loss_hex"), record.at("gradient_norm_hex")});
  }
  EXPECT_EQ(steps, 3);
}

TEST(Debug, GoesBackToTheSameBits) {
  const TemporaryFolder folder;
  const std::string dump = folder / "x.safetensors";
  const auto result =
      debug(folder, "until 1B2\nuntil 1B2\nstep 3\ndump grad.model.layers.1.mlp.up_proj.weight " + dump +
                        "\nstep 20\nback 20\ndiff grad.model.layers.1.mlp.up_proj.weight " + dump + "\nback 45\nwhere\nback 100\n");
  EXPECT_EQ(result.code, static_cast<int>(ExitCode::usage));
  expect_parts(debug(folder, "until 1B2\ndump model.norm.weight " + dump + "\n").err,
               {dump + " exists already, expected a new file's name"});
  expect_parts(answer(result.out, "diff"), {"identical"});
  expect_parts(answer(result.out, "back 45"), {"step 1, "});
  expect_parts(result.err, {"back 100, expected at most "});
}

TEST(Debug, RunsSplitBackwardsChunksAndReplicas) {
  const TemporaryFolder folder;
  for (const Words& more : {Words{"pipeline.schedule=zb-h1"}, Words{"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"},
                            Words{"pipeline.ranks=2", "pipeline.schedule=dualpipe", "model.tie_word_embeddings=true"},
                            Words{"model.tie_word_embeddings=true", "train.dtype=bf16"}}) {
    const auto result = debug(folder, "run\n", joined(more, {"train.steps=2"}));
    EXPECT_EQ(result.code, 0) << result.err << more.front();
    expect_parts(result.out, {"step 2/2 | loss ", "ended: the last step is done"});
  }
}

TEST(Debug, FollowsTheActionThatRan) {
  const TemporaryFolder folder;
  const auto result = debug(folder,
                            "until 2F3\nstep\nprint layers.2.mlp.swiglu\nrank 1\nprint layers.1.mlp.swiglu\nnext\nops\n"
                            "set model.norm.weight[-1] 3\nprint model.norm.weight[31]\nback\nwhere\n");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(answer(result.out, "print layers.2.mlp.swiglu"), {"f32 [256, 80]  of 2F3 on rank 2"});
  expect_parts(answer(result.out, "print layers.1.mlp.swiglu"), {" on rank 1"});
  expect_parts(answer(result.out, "next"), {"after 1", " on rank 1 ("});
  expect_parts(answer(result.out, "ops"), {" on rank 1, ", "→ all have run"});
  expect_parts(answer(result.out, "print model.norm.weight[31]"), {"model.norm.weight[31]  3  f32, element of [32]"});
}

TEST(Debug, NamesTheStepOfTheLastAction) {
  const TemporaryFolder folder;
  const auto result = debug(folder, "until step 2\nback\nstep\nrank 3\nn\n");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(answer(result.out, "back"), {"step 1, after "});
  expect_parts(answer(result.out, "step\n"),
               {"step 1, after 0B3 on rank 0 (backward of stage 0, microbatch 3); next 0F0 on rank 0 of step 2"});
  expect_parts(answer(result.out, "rank 3"), {"step 2, rank 3 waits for the activation of microbatch 0", "it ran 3B3 last"});
  expect_parts(answer(result.out, "n\n"), {"step 2, after 3F0 on rank 3"});
}

TEST(Debug, AnErrorOfAScriptEndsItWithinAnActionToo) {
  const TemporaryFolder folder;
  for (const char* inside : {"until 1F1\nop 3\n", "until 1F1\n", "break op layers.1.mlp.swiglu\nrun\n"}) {
    const auto result = debug(folder, std::string(inside) + "print nosuch\nwhere\n");
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::usage)) << inside << result.err;
    expect_parts(result.err, {"no tensor nosuch"});
    EXPECT_EQ(result.out.find("(millrace) where"), std::string::npos) << inside << result.out;
    EXPECT_EQ(result.out.find("failed"), std::string::npos) << inside << result.out;
  }
}

TEST(Debug, NamesWhatWasMeant) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& script, const Words& parts) {
    const auto result = debug(folder, script);
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::usage)) << script << result.err;
    expect_parts(result.err, parts);
  };
  refused("stpe\n", {"unknown command stpe; did you mean step?"});
  refused("print model.layers.1.mlp.up_prj.weight\n", {"did you mean model.layers.1.mlp.up_proj.weight?"});
  refused("print up_proj.weight\n", {"is the end of 4 names", "model.layers.0.mlp.up_proj.weight"});
  refused("break stagee 1\n", {"break … stagee", "did you mean stage?"});
  refused("break stage 9\n", {"stage 9, expected 0 to 3"});
  refused("break when nrom(layer 1) > 2\n", {"did you mean norm?"});
  refused("until 7F0\n", {"7F0 is in no list of schedule 1f1b"});
  refused("step\nprint layers.0.mlp.gate_proj.dx\n", {"layers.0.mlp.gate_proj.dx does not belong to 0F0"});
  refused("step\nprint layers.0.self_attn.q_proj\n", {"is in memory from operation", "of 0F0 only: break there"});
  refused("break when norm(layer 9) > 2\n", {"layer 9, expected 0 to 3"});
  refused("break when norm(layers.1.mlp.swigl) > 2\n", {"no operation or value layers.1.mlp.swigl", "did you mean layers.1.mlp.swiglu?"});
  refused("break op nope\n", {"no operation or value nope"});
  refused("run 5\n", {"run 5, expected run alone"});
  refused("step 1 2\n", {"step 1 2, expected step [N]"});
  refused("until step 5000\n", {"until step 5000, the run has "});
  refused("print layers.2.mlp.swiglu\n",
          {"no tensor layers.2.mlp.swiglu here: it belongs to stage 2 on rank 2, and rank 0 is selected: enter `rank 2`"});
  refused("rank 2\nprint layers.2.mlp.swiglu\n", {"it belongs to stage 2 on rank 2, which has run no action yet: enter `next` first"});
  refused("print model.norm.weight[32]\n", {"model.norm.weight[32] of shape [32]: index 32 of axis 0, expected -32 to 31"});
  refused("set model.norm.weight[0:2] 1\n", {"model.norm.weight[0:2] has 2 elements, expected one"});
  refused("set model.norm.weight 1\n", {"expected an element and a value: set model.norm.weight[0, 3] 1.5"});
  refused("ops 9F0\n", {"9F0 is in no list of schedule 1f1b"});
  refused("help stpe\n", {"unknown command stpe; did you mean step?"});
  refused("print nosuch\n", {"no tensor nosuch here; `ops` lists"});
  refused("back\n", {"back 1, expected at most 0"});
}

}  // namespace
}  // namespace millrace::tests
