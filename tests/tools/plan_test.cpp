#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "kernels/base/check.hpp"
#include "tests/support/stories.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// The number in the first match's first group; NaN if there is none.
double number_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stod(match[1].str()) : std::nan("");
}

/// A model whose head is heavier than a rank's share of its layers, on four ranks. Its data do not exist and are not read.
CommandResult plan(const Words& more) {
  const Words words{"plan",
                    "configs/runs/tiny.toml",
                    "data.text=/no/such/folder",
                    "model.vocab_size=2048",
                    "model.hidden_size=64",
                    "model.intermediate_size=128",
                    "model.layers=12",
                    "train.microbatches=16",
                    "train.threads=1",
                    "pipeline.ranks=4"};
  return run_millrace(joined(words, more));
}

double speed_of(const CommandResult& result) { return number_in(result.out, "([0-9.]+) x the tokens/s of uniform 1f1b"); }

TEST(Plan, AnUnevenModelIsFasterThanUniform) {
  const auto result = plan({});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"the programs' FLOPs, GFLOP of a microbatch", "uniform  1f1b", "E t*3 | t*3 | t*3 | t*3 H", "plan idle",
                            "memory is that of a process for each rank (mpirun -np 4); ranks that share one need less"});
  EXPECT_GE(speed_of(result), 1.15) << result.out;
  const auto same = plan({"--schedules", "1f1b"});
  EXPECT_GE(speed_of(same), 1.15) << "by the layout alone\n" << same.out;
  EXPECT_LE(speed_of(same), speed_of(result));
}

TEST(Plan, MeasuresThePartsByRunningThem) {
  const auto result = plan({"--measure", "--repeats", "3", "--schedules", "zb-h1"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"measured here, ", " rounds on 1 thread, "});
  if (result.out.find("\ndoubt ") == std::string::npos) {
    expect_parts(result.out, {"tokens/s; without data, ", " ms for norm and optimizer"});
  } else {
    expect_parts(result.out, {"predicts  nothing"});  // other tests run at the same time
  }
  for (const char* part : {"layer", "head"})
    for (int column = 0; column < 4; ++column)
      EXPECT_GT(number_in(result.out, std::string("\n") + part + "(?: +[0-9.]+){" + std::to_string(column) + "} +([0-9.]+)"), 0) << part;
}

// The layout that is best without transfers may be worse than the even one with them.
TEST(Plan, IsNoSlowerThanUniformWhereTransfersDecide) {
  const TemporaryFolder folder;
  const auto costs = folder.write("costs.csv", "embedding,0.0081,0.0010,0.0114\nlayer,0.4491,0.5507,0.2416\nhead,0.0122,1.5818,1.6815\n");
  for (const char* rate : {"1e6", "1e7", "1e8"})
    for (const char* shard : {"none", "parameters"}) {
      const auto result = plan({"--costs", costs, "--schedules", "1f1b", "--link-rate", rate, "mesh.data=2",
                                std::string("mesh.shard=") + shard, "train.accumulators=2"});
      ASSERT_EQ(result.code, 0) << result.err;
      EXPECT_GE(speed_of(result), 1) << result.out;
    }
}

// What copies send each other is part of the step, as their run would plan it.
TEST(Plan, PricesTransfersBetweenCopies) {
  const TemporaryFolder folder;
  const auto costs = folder.write("costs.csv", "embedding,0,0,0\nlayer,1,1,1\nhead,1,1,1\n");
  const auto of_shard = [&](const Words& more) {
    const auto result = plan(joined(
        {"--costs", costs, "--schedules", "1f1b", "--link-rate", "1e7", "mesh.data=4", "model.vocab_size=512", "train.microbatches=64"},
        more));
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  };
  const auto sent = [](const CommandResult& result) { return number_in(result.out, "a rank sends ([0-9.]+) "); };
  const auto exposed = [](const CommandResult& result) { return number_in(result.out, "; ([0-9.]+) ms of the step are waits for that"); };
  const auto step = [](const CommandResult& result) { return number_in(result.out, "predicts  a step of ([0-9.]+) ms"); };
  const auto whole = of_shard({"mesh.shard=none", "train.accumulators=4"});
  const auto divided = of_shard({"mesh.shard=optimizer", "train.accumulators=4"});
  const auto parameters =
      of_shard({"mesh.shard=parameters", "train.accumulators=4", "--error", "2", "--error-growth", "1", "--error-ranks", "4"});
  EXPECT_GT(exposed(whole), exposed(divided)) << whole.out << divided.out;
  EXPECT_GT(exposed(divided), 0);
  EXPECT_NEAR(step(whole) - exposed(whole), step(divided) - exposed(divided), 0.02);
  EXPECT_EQ(sent(divided), sent(parameters)) << "each stage is gathered once a step, with one to a rank";
  // 16 ranks are two doublings more than 4.
  EXPECT_NEAR(number_in(parameters.out, "band +([0-9.]+) to"), step(parameters) * 0.96, 0.02) << parameters.out;
  EXPECT_EQ(plan({"--costs", costs, "--schedules", "1f1b"}).out.find("a rank sends"), std::string::npos);
}

// Times of a machine that did something else meanwhile.
TEST(Plan, PromisesNothingByImpossibleTimes) {
  const TemporaryFolder folder;
  const auto costs = folder.write("costs.csv", "embedding,0,0,0\nlayer,1,1,1,3.7\nhead,1,1,1\n");
  const Words words{"--costs", costs, "--schedules", "1f1b", "--out", folder / "plan.toml", "--overwrite"};
  const auto result = plan(words);
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"\ndoubt     " + costs + ": B of layer 0 takes 3.700 ms, I and W, which do the same work, 2.000 ms\n",
                            "\npredicts  nothing, since the times cannot be believed", "\nwrote "});
  EXPECT_EQ(result.out.find("x the tokens/s"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("%"), std::string::npos) << result.out;
  const auto written = read_file(folder / "plan.toml");
  expect_parts(written, {"predicts nothing, since " + costs, "layout = "});
  EXPECT_EQ(written.find("costs = "), std::string::npos) << written;
  folder.write("costs.csv", "embedding,0,0,0\nlayer,1,1,1,2.9\nhead,1,1,1\n");
  expect_parts(plan(words).out, {"x the tokens/s of uniform 1f1b"});
}

TEST(Plan, MeasuresLayersOfExperts) {
  const auto result = plan({"model.family=mixtral", "model.experts=4", "model.experts_per_token=2", "--measure", "--repeats", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GT(number_in(result.out, "\nlayer +([0-9.]+)"), 0) << result.out;
}

/// Layers of linear attention cost more than those of full attention here: their projections are wider.
TEST(Plan, PricesEveryKindOfLayerByItself) {
  const auto result = plan({"model.family=qwen3_5", "model.layer_types=linear_attention,linear_attention,full_attention",
                            "model.linear_key_heads=4", "model.linear_value_heads=8", "model.linear_key_head_dim=32",
                            "model.linear_value_head_dim=32", "model.linear_conv_kernel_dim=4"});
  ASSERT_EQ(result.code, 0) << result.err;
  const double linear = number_in(result.out, "\nlayer 0 +([0-9.]+)"), full = number_in(result.out, "\nlayer 2 +([0-9.]+)");
  EXPECT_GT(linear, full) << result.out;
  EXPECT_GT(full, 0) << result.out;
  EXPECT_TRUE(std::isnan(number_in(result.out, "\nlayer 1 +([0-9.]+)"))) << result.out;
}

TEST(Plan, CountsExchangesAndWeavesWhereThatHidesThem) {
  const TemporaryFolder folder;
  const auto costs = folder.write("costs.csv", "embedding,0,0,0\nlayer,1,1,1\nhead,1,1,1\n");
  const auto step = [&](const Words& more, const std::string& weave) {
    const auto result =
        plan(joined({"model.family=mixtral", "model.experts=4", "model.experts_per_token=2", "mesh.expert=2", "train.accumulators=2",
                     "model.layers=4", "--costs", costs, "--schedules", "1f1b", "--out", folder / "plan.toml", "--overwrite"},
                    more));
    EXPECT_EQ(result.code, 0) << result.err;
    expect_parts(result.out, {", weave " + weave + "\n", "(mpirun -np 8)", " for each of 8 ranks on one host", ": millrace train "});
    expect_parts(read_file(folder / "plan.toml"), {"\nweave = \"" + weave + "\"\n"});
    return number_in(result.out, "a step of ([0-9.]+) ms");
  };
  // Of 4 · 64 tokens with 2 experts each, half of the rows of 64 floats leave a rank: 65,536 bytes, four times in each layer.
  const double free = step({"pipeline.weave=off"}, "off"), slow = step({"pipeline.weave=off", "--link-rate", "1.31072e8"}, "off");
  EXPECT_GE(slow - free, 0.5 * 4 * (8 + 3)) << "half a millisecond an exchange, and more for boundaries";
  const double woven = step({"pipeline.weave=neighbours", "--link-rate", "1.31072e8"}, "neighbours");
  EXPECT_LT(woven, slow);
  EXPECT_EQ(step({"pipeline.weave=auto", "--link-rate", "1.31072e8"}, "neighbours"), woven);
  EXPECT_EQ(step({"pipeline.weave=auto"}, "off"), free);
}

TEST(Plan, TakesTimesFromAFileAndWritesWhatItDecided) {
  const TemporaryFolder folder;
  // Computed by hand: one layer per rank, none on the last rank, and a head of two; 1f1b of 6, 6, 6 and 6 for each of 16
  // microbatches.
  const auto costs = folder.write("costs.csv", "# part,F,I,W\nembedding, 0, 0, 0\nlayer,2,2,2\nlayer 0-1,1,1,1,2\nhead,2,2,2\n");
  const auto result = plan({"--costs", costs, "--schedules", "1f1b", "--out", folder / "plan.toml", "model.layers=4"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"E t*2 | t | t | H", "a step of 114.00 ms", "wrote     "});
  EXPECT_NEAR(number_in(result.out, "([0-9.]+) tokens/s; without"), 16 * 4 * 64 / 0.114, 1);
  expect_parts(
      read_file(folder / "plan.toml"),
      {"predicts 114 ms per step", "costs = [\"embedding,0,0,0,0\", \"layer 0-1,1,1,1,2\", \"layer 2-3,2,2,2,4\", \"head,2,2,2,4\"]\n",
       "[pipeline]\nranks = 4\nchunks = 1\nschedule = \"1f1b\"\nlayout = \"E t*2 | t | t | H\"\n", "policy = [\"none\"]"});
}

TEST(Plan, AnExistingPlanIsNotReplacedUnlessToldSo) {
  const TemporaryFolder folder;
  const auto file = folder.write("plan.toml", "# measured for an hour\n");
  expect_failure(plan({"--schedules", "1f1b", "--out", file}), ExitCode::usage, {file + " exists already; --overwrite replaces it"});
  EXPECT_EQ(read_file(file), "# measured for an hour\n");
  EXPECT_EQ(plan({"--schedules", "1f1b", "--out", file, "--overwrite"}).code, 0);
  expect_parts(read_file(file), {"layout = "});
  expect_failure(plan({"--overwrite"}), ExitCode::usage, {"--overwrite without --out"});
}

TEST(Plan, ARehearsalTakesThePlanAndItsCosts) {
  const TemporaryFolder folder;
  const auto costs = folder.write("costs.csv", "embedding,0,0,0\nlayer,1,1,1\nhead,2,2,2\n");
  const auto planned =
      plan({"--costs", costs, "--out", folder / "plan.toml", "model.layers=8", "train.microbatches=4", "--schedules", "1f1b"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  const double step = number_in(planned.out, "a step of ([0-9.]+) ms");
  const auto rehearse = [&](const Words& more) {
    const Words words{"rehearse", "configs/runs/tiny.toml", "model.layers=8", "train.microbatches=4", "pipeline.ranks=4", "--steps", "1"};
    return run_millrace(joined(words, more));
  };
  const auto result = rehearse({folder / "plan.toml"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NEAR(number_in(result.out, "step +measured +[0-9.]+ ms +predicted +([0-9.]+)"), step, 0.01) << result.out;
  EXPECT_GE(number_in(result.out, "step +measured +([0-9.]+)"), step);
  EXPECT_NEAR(number_in(result.out, "tokens/s measured [0-9.]+, predicted ([0-9.]+)"), 4 * 4 * 64 / step * 1e3, 100);
  // The same times with an even distribution: 2 layers on each rank, 4 with the head.
  const auto uniform = rehearse({folder / "plan.toml", "pipeline.layout="});
  ASSERT_EQ(uniform.code, 0) << uniform.err;
  EXPECT_GT(number_in(uniform.out, "step +measured +[0-9.]+ ms +predicted +([0-9.]+)"), step);
  expect_failure(rehearse({}), ExitCode::config, {"pipeline.costs is empty"});
  EXPECT_EQ(rehearse({folder / "plan.toml", "--ranks", "4"}).code, static_cast<int>(ExitCode::usage));
}

TEST(Plan, ARehearsalExchangesRowsAndHidesThem) {
  const TemporaryFolder folder;
  const auto costs = folder.write("costs.csv", "embedding,0,0,0\nlayer,2,2,2\nhead,2,2,2\n");
  const Words model{"model.family=mixtral", "model.experts=4",      "model.experts_per_token=2",
                    "mesh.expert=2",        "train.accumulators=2", "model.layers=2",
                    "train.microbatches=8", "pipeline.ranks=1",     "pipeline.schedule=1f1b"};
  const Words link{"--link-rate", "3e7"};
  struct Found {
    double planned, predicted, measured, exchange;
  };
  const auto found = [&](const std::string& weave, const std::string& launcher) {
    const Words weaves{"pipeline.weave=" + weave};
    const auto planned = plan(joined(joined(joined(model, weaves), link),
                                     {"--costs", costs, "--schedules", "1f1b", "--out", folder / "plan.toml", "--overwrite"}));
    EXPECT_EQ(planned.code, 0) << planned.err;
    const Words words{"rehearse",
                      "configs/runs/tiny.toml",
                      "model.vocab_size=2048",
                      "model.hidden_size=64",
                      "model.intermediate_size=128",
                      folder / "plan.toml",
                      "--json",
                      "--steps",
                      "3",
                      "--profile",
                      folder / "profile"};
    const auto result = run_millrace(joined(joined(words, model), link), launcher);
    EXPECT_EQ(result.code, 0) << result.err;
    if (result.code != 0) return Found{};
    const auto json = nlohmann::json::parse(result.out);
    const auto profile = nlohmann::json::parse(read_file(folder / "profile" + "/profile.json"));
    double exposed = 0, waited = 0;
    std::set<std::string> names;
    for (const auto& exchange : profile.at("exchanges")) {
      names.insert(exchange.at("name").get<std::string>());
      exposed += exchange.at("exposed_ms").get<double>();
    }
    EXPECT_TRUE(names.contains("layers.1.mlp.dispatch")) << profile.at("exchanges");
    const auto& causes = profile.at("causes");
    const auto place = static_cast<std::size_t>(std::ranges::find(causes, "exchange") - causes.begin());
    for (const auto& step : profile.at("steps"))
      for (const auto& rank : step.at("ranks")) waited += rank.at(place).get<double>();
    EXPECT_NEAR(exposed, waited, 0.01 * waited + 1e-3) << "the same waits by layer and by cause";
    EXPECT_EQ(json.at("measured_times").size(), 1U) << "the copies are alike";
    // A rehearsal leaves out what copies send each other after the list.
    const double sums = number_in(planned.out, "; ([0-9.]+) ms of the step are waits for that");
    EXPECT_GT(sums, 0) << planned.out;
    return Found{number_in(planned.out, "a step of ([0-9.]+) ms") - sums, json.at("predicted").get<double>(),
                 json.at("measured").get<double>(), json.at("measured_times").at(0).at("exchange").get<double>()};
  };
  const Found off = found("off", ""), woven = found("neighbours", "");
  for (const Found& each : {off, woven}) {
    EXPECT_NEAR(each.predicted, each.planned, 0.01);
    EXPECT_GE(each.measured, 0.99 * each.predicted);
  }
  const double work = 4 * 3 * 6;
  EXPECT_NEAR(off.predicted, work + 2 * 4 * 4 * 2.2, 8) << "about 2.2 ms for each of two exchanges forward and two back, of two layers";
  EXPECT_GE(off.exchange, 0.95 * (off.predicted - work)) << "nothing hides them";
  EXPECT_LT(woven.predicted - work, 0.6 * (off.predicted - work)) << "the rest is hidden";
  // The same with a copy in each process.
  EXPECT_GE(found("off", on_processes(2)).exchange, 0.95 * (off.predicted - work));
}

TEST(Plan, TrainTakesThePlan) {
  const TemporaryFolder folder;
  write_stories(folder, 60);
  const auto costs = folder.write("costs.csv", "embedding,0,0,1\nlayer,1,1,1\nhead,4,4,4\n");
  const Words run{"configs/runs/tiny.toml",
                  "data.text=" + folder / "text",
                  "train.steps=2",
                  "train.warmup_steps=1",
                  "train.sequence=32",
                  "train.threads=1",
                  "train.microbatches=8",
                  "pipeline.schedule=gpipe",
                  "run.directory=" + folder / "run"};
  const Words to_plan{"plan", "--costs", costs, "--schedules", "zb-v", "--out", folder / "plan.toml"};
  const auto planned = run_millrace(joined(joined(to_plan, run), {"pipeline.ranks=2"}));
  ASSERT_EQ(planned.code, 0) << planned.err;
  std::smatch layout;
  const auto file = read_file(folder / "plan.toml");
  ASSERT_TRUE(std::regex_search(file, layout, std::regex("layout = \"([^\"]*)\""))) << file;

  Words words{"train"};
  for (const auto& word : run)
    if (word != "pipeline.schedule=gpipe") words.push_back(word);
  const auto trained = run_millrace(joined(words, {folder / "plan.toml"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  expect_parts(trained.out, {"zb-v | " + layout[1].str() + " |", "step 2/2"});
  const auto again = run_millrace(joined(words, {"pipeline.plan=" + folder / "plan.toml", "run.directory=" + folder / "other"}));
  ASSERT_EQ(again.code, 0) << again.err;
  expect_parts(again.out, {"zb-v | " + layout[1].str() + " |"});
  EXPECT_EQ(run_millrace({"ckpt", "hash", folder / "run"}).out, run_millrace({"ckpt", "hash", folder / "other"}).out);
}

TEST(Plan, StaysWithinTheMemoryAndKeepsLessWhereItMust) {
  const TemporaryFolder folder;
  const auto bytes = [&] { return number_in(read_file(folder / "plan.toml"), "fullest rank ([0-9]+) bytes"); };
  const auto within = [&](double limit) {
    const auto result =
        plan({"--memory", std::to_string(static_cast<long>(limit)), "--schedules", "1f1b", "--out", folder / "plan.toml", "--overwrite"});
    EXPECT_EQ(result.code, 0) << result.err << result.out;
    EXPECT_LE(bytes(), limit);
    return result.out;
  };
  const auto roomy = within(1e12);
  expect_parts(roomy, {"1 chunk per rank, rematerialize none"});
  const double free = bytes();
  // A little less than the fullest rank needs: that rank recomputes, the others need not.
  const auto less = within(0.9 * free);
  EXPECT_TRUE(std::regex_search(less, std::regex("per rank, rematerialize [a-z_]*,?[a-z_,]*none"))) << less;
  const auto tight = within(0.4 * free);
  EXPECT_EQ(tight.find("1 chunk per rank, rematerialize none"), std::string::npos) << tight;
  // A policy for each stage stands alone: beside it, the key for all of them would have no effect.
  EXPECT_NE(read_file(folder / "plan.toml").find("\nstages = ["), std::string::npos) << read_file(folder / "plan.toml");
  const auto again = plan({folder / "plan.toml"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.err.find("has no effect"), std::string::npos) << again.err;
  for (const char* limit : {"1000", "1KiB"})
    expect_failure(plan({"--memory", limit, "--schedules", "1f1b"}), ExitCode::config,
                   {fmt::format("no schedule fits: a rank may have {} bytes, uniform 1f1b takes ", limit[1] == 'K' ? 1024 : 1000)});
  for (const char* limit : {"", "GiB", "1GB", "0", "-1", "1.5GiB", "9000000TiB"})
    expect_failure(plan({"--memory", limit}), ExitCode::usage, {"--memory", "expected bytes", "15GiB"});
}

// Layers with experts need more than the dense ones before them, so that as many layers are not as much memory.
TEST(Plan, StaysWithinTheMemoryWithLayersOfTwoKinds) {
  const TemporaryFolder folder;
  const Words model{"configs/runs/tiny.toml", "model.family=deepseek_v3",  "model.kv_heads=4",           "model.layers=6",
                    "model.experts=16",       "model.experts_per_token=2", "model.first_dense_layers=3", "model.moe_intermediate_size=64",
                    "model.q_lora_rank=16",   "model.qk_nope_head_dim=8",  "model.kv_lora_rank=16",      "model.qk_rope_head_dim=8",
                    "model.head_dim=8",       "model.v_head_dim=8",        "pipeline.ranks=3",           "train.threads=1"};
  const auto file = folder / "plan.toml";
  const auto result = run_millrace(joined(joined({"plan"}, model), {"--schedules", "1f1b", "--memory", "9MiB", "--out", file}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto inspected = run_millrace(joined(joined({"inspect"}, model), {file}));
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  const std::regex rank("\n +[0-2]  [0-2] +[0-9]+ +[0-9.]+% +([0-9]+)");
  int ranks = 0;
  for (std::sregex_iterator each(inspected.out.begin(), inspected.out.end(), rank), end; each != end; ++each, ++ranks)
    EXPECT_LE(std::stoll((*each)[1].str()), 9 << 20) << inspected.out;
  EXPECT_EQ(ranks, 3) << inspected.out;
}

TEST(Plan, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto refused = [&](const Words& words, ExitCode code, const Words& parts) { expect_failure(plan(words), code, parts); };
  refused({"--measure", "--costs", "x"}, ExitCode::usage, {"--measure and --costs, expected one of them"});
  refused({"--schedules", "zb-h3"}, ExitCode::usage, {"--schedules has \"zb-h3\"", "did you mean zb-h"});
  refused({"--link-latency", "1"}, ExitCode::usage, {"go with times"});
  refused({"--link-latency", "-1"}, ExitCode::usage, {"--link-latency -1, expected 0 or a number above it"});
  refused({"--link-rate", "0"}, ExitCode::usage, {"--link-rate 0, expected a number above 0"});
  refused({"--repeats", "3"}, ExitCode::usage, {"--repeats without --measure"});
  refused({"model.layers=1"}, ExitCode::config, {"pipeline.ranks = 4"});
  const auto costs = [&](const std::string& text, const Words& parts) {
    refused({"--costs", folder.write("costs.csv", text)}, ExitCode::config, parts);
  };
  costs("embedding,0,0\n", {"costs.csv:1: found \"embedding,0,0\", expected part,F,I,W"});
  costs("embedding,0,0,x\n", {"costs.csv:1: found \"x\", expected milliseconds"});
  costs("\nlayer 12,1,1,1\n", {"costs.csv:2: found \"12\", expected a layer of the model, 0 to 11"});
  costs("layer 3-2,1,1,1\n", {"the smaller number first"});
  costs("tail,1,1,1\n", {"found \"tail\", expected embedding, layer"});
  costs("head,1,1,1\nhead,1,1,1\n", {"costs.csv:2", "every part once"});
  costs("embedding,0,0,0\nhead,1,1,1\nlayer 0-3,1,1,1\n", {"says nothing of layer 4"});
}

}  // namespace
}  // namespace millrace::tests
