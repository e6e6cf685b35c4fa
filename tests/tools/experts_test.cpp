#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

// The commands on a small mixture: what its routers chose is on the record of every step, the same in every layout.
namespace millrace::tests {
namespace {

using Json = nlohmann::json;

constexpr int experts = 6, layers = 4, steps = 4;
constexpr std::int64_t choices = 4 * 2 * 32 * 2;  // of a router in a step: microbatches · rows · tokens · experts per token

const Words kRun{"configs/runs/experts.toml",  "model.hidden_size=32", "model.heads=4",   "model.kv_heads=2",     "model.head_dim=8",
                 "model.intermediate_size=24", "model.experts=6",      "train.steps=4",   "train.warmup_steps=1", "train.batch=2",
                 "train.sequence=32",          "train.microbatches=4", "data.text=docs",  "data.held_out=0",      "checkpoint.every=2",
                 "checkpoint.keep=4",          "sample.tokens=0",      "evaluate.every=0"};

CommandResult train(const std::string& directory, const Words& more = {}, const std::string& before = "") {
  return run_millrace(joined(joined({"train"}, kRun), joined({"run.directory=" + directory}, more)), before);
}

/// The records of steps in metrics.jsonl, without what depends on the clock or the machine.
std::vector<Json> records(const std::string& directory) {
  std::vector<Json> found;
  std::ifstream stream(directory + "/metrics.jsonl");
  for (std::string line; std::getline(stream, line);) {
    auto record = Json::parse(line);
    if (!record.contains("learning_rate")) continue;
    for (const char* name : {"seconds", "tokens_per_second", "flops_per_second", "flops_utilization", "bubble", "wait", "exchange",
                             "exchange_bytes", "reduction", "reduction_bytes", "data", "resident_bytes"})
      record.erase(name);
    found.push_back(std::move(record));
  }
  return found;
}

TEST(Experts, TheRecordCountsEveryChoiceInEveryLayout) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(folder / "one", {"pipeline.ranks=1"}).code, 0);
  const auto expected = records(folder / "one");
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(steps));
  for (const Json& record : expected) {
    ASSERT_EQ(record["routers"], Json({"layers.0", "layers.1", "layers.2", "layers.3"}));
    for (int layer = 0; layer < layers; ++layer) {
      const auto tokens = record["expert_tokens"][layer].get<std::vector<std::int64_t>>();
      ASSERT_EQ(tokens.size(), static_cast<std::size_t>(experts));
      EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}), choices);
      double entropy = 0;
      for (const auto count : tokens) {
        const double share = static_cast<double>(count) / static_cast<double>(choices);
        entropy -= count > 0 ? share * std::log(share) : 0;
      }
      EXPECT_NEAR(record["expert_entropy"][layer].get<double>(), entropy, 1e-12);
      EXPECT_NEAR(record["expert_evenness"][layer].get<double>(), entropy / std::log(experts), 1e-12);
      const auto hottest = static_cast<std::int64_t>(std::ranges::max_element(tokens) - tokens.begin());
      EXPECT_EQ(record["hottest_expert"][layer], hottest);
      EXPECT_EQ(record["hottest_share"][layer].get<double>(),
                static_cast<double>(tokens[static_cast<std::size_t>(hottest)]) / static_cast<double>(choices));
      EXPECT_EQ(record["dropped_tokens"][layer], 0);
    }
  }
  EXPECT_NE(expected[0]["expert_tokens"], expected[1]["expert_tokens"]) << "other data, other choices";
  EXPECT_NE(expected[0]["expert_tokens"][0], expected[0]["expert_tokens"][1]) << "other layers, other choices";
  ASSERT_EQ(train(folder / "four", {"pipeline.ranks=4"}, on_processes(4)).code, 0);
  EXPECT_EQ(records(folder / "four"), expected);
  ASSERT_EQ(train(folder / "v", {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}).code, 0);
  EXPECT_EQ(records(folder / "v"), expected);
}

TEST(Experts, AllReplicasAreCounted) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      train(folder / "one", {"pipeline.ranks=1", "train.accumulators=2", "train.expert_accumulators=2", "run.record_internal_metrics=true"})
          .code,
      0);
  ASSERT_EQ(train(folder / "dual", {"pipeline.ranks=2", "pipeline.schedule=dualpipe", "run.record_internal_metrics=true"}).code, 0);
  EXPECT_EQ(records(folder / "dual"), records(folder / "one"));
  ASSERT_EQ(train(folder / "copies", {"mesh.data=2", "pipeline.ranks=2", "train.accumulators=2", "train.expert_accumulators=2",
                                      "run.record_internal_metrics=true"})
                .code,
            0);
  EXPECT_EQ(records(folder / "copies"), records(folder / "one"));
}

TEST(Experts, TheRecordHasTheBytesOfExchanges) {
  const TemporaryFolder folder;
  const auto bytes_of = [&](const char* name, const Words& more, const std::string& before) {
    const auto result = train(folder / name, joined({"train.accumulators=2"}, more), before);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.find(" exchange ") != std::string::npos, std::string(name) != "one") << result.out;
    std::vector<Json> found;
    std::ifstream stream(folder / name + "/metrics.jsonl");
    for (std::string line; std::getline(stream, line);) {
      const auto record = Json::parse(line);
      if (!record.contains("learning_rate")) continue;
      EXPECT_EQ(record.contains("exchange"), record.contains("exchange_bytes"));
      found.push_back(record.value("exchange_bytes", Json()));
    }
    return found;
  };
  const auto bytes = bytes_of("members", {"pipeline.ranks=1", "mesh.expert=2"}, "");
  ASSERT_EQ(bytes.size(), static_cast<std::size_t>(steps));
  EXPECT_GT(bytes[0], 0);
  EXPECT_GT(std::set(bytes.begin(), bytes.end()).size(), 1U) << "steps with other choices";
  EXPECT_EQ(bytes_of("processes", {"pipeline.ranks=1", "mesh.expert=2"}, on_processes(2)), bytes);
  EXPECT_EQ(bytes_of("one", {"pipeline.ranks=1"}, ""), std::vector<Json>(steps));
}

TEST(Experts, AKilledRunGoesOnWithTheSameBits) {
  const TemporaryFolder folder;
  const Words six{"train.steps=6"};
  ASSERT_EQ(train(folder / "whole", six).code, 0);
  // Killed in the middle of the record of step 6: call 1 writes the first line. The checkpoint of step 4 began when that of step 2 was
  // committed.
  const auto killed = train(folder / "killed", joined(six, {"debug.fault=io:path=metrics.jsonl:op=write:call=7:kill"}));
  ASSERT_EQ(killed.code, 137) << killed.err;
  const auto resumed = train(folder / "killed", six);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_parts(resumed.out, {"resumes after step"});
  EXPECT_EQ(records(folder / "killed"), records(folder / "whole"));
  const auto hash = [&](const char* run) { return run_millrace({"ckpt", "hash", folder / run}).out; };
  EXPECT_EQ(hash("killed"), hash("whole"));
}

TEST(Experts, InternalMetricsChangeNoNumber) {
  const TemporaryFolder folder;
  ASSERT_EQ(train(folder / "plain").code, 0);
  ASSERT_EQ(train(folder / "more", {"run.record_internal_metrics=true", "run.tensorboard=true"}).code, 0);
  auto more = records(folder / "more");
  for (Json& record : more) {
    for (const char* name : {"activ_fraction_zero", "activ_mean", "activ_stdev"})
      EXPECT_EQ(record[name].size(), static_cast<std::size_t>(layers));
    for (int layer = 0; layer < layers; ++layer) {
      EXPECT_EQ(record["activ_fraction_zero"][layer], 0.0);
      EXPECT_GT(record["activ_stdev"][layer].get<double>(), 0.0);
      EXPECT_LT(std::abs(record["activ_mean"][layer].get<double>()), record["activ_stdev"][layer].get<double>());
    }
    for (const char* name : {"activ_fraction_zero", "activ_mean", "activ_stdev"}) record.erase(name);
  }
  EXPECT_EQ(more, records(folder / "plain"));
}

TEST(Experts, CompareAndReplayRepeatTheRouting) {
  const TemporaryFolder folder;
  for (const auto& [name, layout] :
       {std::pair{"a", Words{"pipeline.ranks=4"}}, std::pair{"b", Words{"pipeline.ranks=2", "pipeline.schedule=zb-h1"}}})
    ASSERT_EQ(train(folder / name, joined({"--record", "hashes"}, layout)).code, 0);
  const auto compared = run_millrace({"compare", folder / "a", folder / "b"});
  EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
  expect_parts(compared.out, {"identical"});
  const auto replayed = run_millrace({"replay", folder / "a", "--step", "3", "--stage", "1"});
  EXPECT_EQ(replayed.code, 0) << replayed.out << replayed.err;
  expect_parts(replayed.out, {"step 3 | loss ", "as recorded", "outputs and gradients as in the whole pipeline"});
}

// Exchanges divide the actions of its stages, and bring the rows that came from the other member.
TEST(Experts, AStageThatSharesExpertsIsReplayedAlone) {
  const TemporaryFolder folder;
  const Words two{"pipeline.ranks=2", "mesh.expert=2", "train.accumulators=2"};
  ASSERT_EQ(train(folder / "a", two).code, 0);
  for (const auto& [stage, more] : {std::pair<std::string, Words>{"0", {}},
                                    {"1", {"pipeline.weave=neighbours"}},
                                    {"3", {"experts.capacity=0.25"}},
                                    {"2", {"pipeline.schedule=zb-h1"}}}) {
    const auto replayed = run_millrace(joined({"replay", folder / "a", "--step", "2", "--stage", stage, "--repeat", "2"}, more));
    EXPECT_EQ(replayed.code, 0) << stage << ": " << replayed.out << replayed.err;
    expect_parts(replayed.out, {"step 2 | loss ", "as recorded", "F, segment  1 of ", "outputs and gradients as in the whole pipeline"});
  }
}

/// What was printed between this command and the next.
std::string answer(const std::string& out, const std::string& command) {
  const auto at = out.find("(millrace) " + command + "\n");
  if (at == std::string::npos) return "no such command: " + command + "\n" + out;
  const auto begin = out.find('\n', at) + 1;
  return out.substr(begin, out.find("(millrace) ", begin) - begin);
}

CommandResult debug(const TemporaryFolder& folder, const std::string& script, const Words& more = {}) {
  return run_millrace(joined({"debug", "--script", folder.write("script", script)}, joined(kRun, more)));
}

TEST(Experts, TheDebuggerShowsTheRouting) {
  const TemporaryFolder folder;
  const auto result = debug(folder,
                            "until 1F2\nbreak stage 1 forward op layers.1.mlp.sort\nrun\nshow routing\ndelete all\nstep\nrank 1\n"
                            "show routing 63\nuntil 2F1\nuntil 1B1\nnext\nshow routing 5\n");
  ASSERT_EQ(result.code, 0) << result.err << result.out;
  expect_parts(answer(result.out, "show routing"), {"layers.1, 1F2 on rank 1", "layers.1.mlp.load has not run yet in 1F2"});
  const auto after = answer(result.out, "show routing 63");
  expect_parts(after, {"layers.1, 1F2 on rank 1\n", "  expert       0      1      2      3      4      5\n", "  tokens ", "  entropy ",
                       "% of an even choice; hottest expert ", "  token 63: expert ", " with weight 0."});
  expect_parts(answer(result.out, "show routing 5"), {"layers.1, 1B1 on rank 1\n", "  token 5: expert ", ", expert "});
}

// Between two segments of an action, what the later ones compute is not there yet, though the step before left it in memory.
TEST(Experts, TheDebuggerShowsNothingThatASegmentHasNotComputed) {
  const TemporaryFolder folder;
  const auto result = debug(folder, "until step 2\nstep\nshow routing\nuntil 0F2\nshow routing 1\nrank 2\nstats experts.w1\n",
                            {"pipeline.ranks=2", "mesh.expert=2", "train.accumulators=2"});
  ASSERT_EQ(result.code, 0) << result.err << result.out;
  expect_parts(result.out, {": 2 copies (2 share their experts) of 2 ranks, schedule 1f1b, "});
  expect_parts(answer(result.out, "step"), {"after 0F0 on rank 0", "segment 0 of "});
  expect_parts(answer(result.out, "show routing"),
               {"layers.0, 0F0 on rank 0\n  expert  ", "layers.1, 0F0 on rank 0\n  layers.1.mlp.load has not run yet in 0F0\n"});
  expect_parts(answer(result.out, "show routing 1"),
               {"layers.0, 0F0 on rank 0\n  expert  ", "layers.1, 0F0 on rank 0\n  expert  ", "  token 1: expert "});
  const auto refused = [&](const std::string& command, const Words& parts) {
    const auto other = debug(folder, command + "\n", {"pipeline.ranks=2", "mesh.expert=2", "train.accumulators=2"});
    expect_failure(other, ExitCode::usage, parts);
  };
  refused("step\nprint layers.1.mlp.route.experts", {"layers.1.mlp.route.experts is written by operation ", " of 0F0, which has not run"});
  refused("until 0F1", {"0F1 is in no list of schedule 1f1b: stage 0, of copy 0, has it for microbatches 0, 2"});
  refused("until 4F0", {"4F0 is in no list of schedule 1f1b: stages are 0 to 3"});
  refused("until 0W0", {"0W0 is in no list of schedule 1f1b: stage 0, of copy 0, has no such actions"});
  refused("print model.layers.1.block_sparse_moe.experts.3.w1.weight",
          {"it is a part of model.layers.1.block_sparse_moe.experts.w1.weight"});
  refused("step\nprint layers.1.mlp.gate_proj#expert3", {"it is a part of layers.1.mlp.gate_proj"});
}

TEST(Experts, TheDebuggerNamesWhatWasMeant) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& script, const Words& parts, const Words& more = {}) {
    const auto result = debug(folder, script, more);
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::usage)) << script << result.err;
    expect_parts(result.err, parts);
  };
  refused("show\n", {"show what?, expected show routing"});
  refused("show tokens\n", {"show tokens, expected show routing"});
  refused("show routing\n", {"rank 0 has run no action yet"});
  refused("step\nshow routing 64\n", {"token 64, expected 0 to 63"});
  for (const char* word : {"x", "-1", "1.5"})
    refused(fmt::format("step\nshow routing {}\n", word), {fmt::format("routing {}, expected a number of 0 or more", word)});
  const auto dense = run_millrace({"debug", "--script", folder.write("dense", "step\nshow routing\n"), "configs/runs/tiny.toml",
                                   "data.text=docs", "data.held_out=0", "sample.tokens=0", "train.threads=1"});
  expect_failure(dense, ExitCode::usage, {"stage 0 has no experts"});
}

TEST(Experts, TheProfileTellsTheirLoadAndTheRateOfTheirProducts) {
  const TemporaryFolder folder;
  const auto result = run_millrace(joined({"profile"}, joined(kRun, {"--steps", "2", "--out", folder / "profile"})));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"\nexperts\ngrouped products: ", "% of peak\n", "layers.0     entropy ", "hottest expert ", "; 0 dropped\n"});
  const auto profile = Json::parse(read_file(folder / "profile/profile.json"));
  ASSERT_EQ(profile["experts"].size(), static_cast<std::size_t>(layers));
  for (const Json& router : profile["experts"]) {
    const auto tokens = router["tokens"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}), 2 * choices) << "of two steps";
  }
  // A product of T·K rows costs what that many rows cost, however many experts there are: 2 · rows · width · hidden width.
  int products = 0;
  for (const Json& operation : profile["operations"]) {
    if (operation["kind"] != "grouped_linear") continue;
    ++products;
    EXPECT_EQ(operation["flops"].get<double>() / operation["count"].get<double>(), 2.0 * (choices / 4) * 32 * 24) << operation;
  }
  EXPECT_EQ(products, 3 * layers);
}

TEST(Experts, TheQuickstartsMixtureHasItsActiveParameters) {
  const auto head = [](const char* run) {
    const auto result = run_millrace({"inspect", std::string("configs/runs/") + run + ".toml", "data.text=docs"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  };
  const auto number_before = [](const std::string& text, const std::string& word) {
    const auto end = text.find(word), begin = text.rfind(' ', end - 2) + 1;
    return std::stoll(text.substr(begin, end - begin));
  };
  const auto active = number_before(head("experts"), " active"), dense = number_before(head("quickstart"), " parameters");
  EXPECT_LE(active, dense);
  EXPECT_GT(static_cast<double>(active), 0.99 * static_cast<double>(dense));
}

}  // namespace
}  // namespace millrace::tests
