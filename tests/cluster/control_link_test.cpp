#include "cluster/control/control_link.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "cluster/control/control_session.hpp"
#include "tests/cluster/control_team.hpp"

namespace {
std::atomic<bool> no_descriptor_is_left{false};
std::atomic<int> accepts_refused{0};
}  // namespace

/// Replaces the C library's function.
extern "C" int accept(int descriptor, sockaddr* address, socklen_t* length) {
  if (!no_descriptor_is_left) return accept4(descriptor, address, length, 0);
  ++accepts_refused;
  errno = EMFILE;
  return -1;
}

namespace millrace::cluster {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

ClusterConfig impatient() {
  ClusterConfig config;
  config.heartbeat_ms = 20;
  config.timeout_ms = 300;
  return config;
}

ClusterConfig never_silent() {
  ClusterConfig config;
  config.timeout_ms = 0;
  return config;
}

// -- joining ----------------------------------------------------------------------------

TEST(ControlLink, JoinsAgreesTalksAndCloses) {
  Team team(3, {0, 1, 2});
  team.joined();
  team.together([&](std::size_t process) { EXPECT_NO_THROW(team.links[process]->agree({{"config", "1"}, {"plan", "2"}})); });
  const std::string large(1 << 20, 'x');
  team.links[1]->send(2, 4, bytes_of(std::string_view("between others")));
  team.links[1]->send(2, 5, bytes_of(std::string_view(large)));
  team.links[2]->send(0, 6, bytes_of(std::string_view("")));
  team.links[0]->send(0, 7, bytes_of(std::string_view("to itself")));
  EXPECT_TRUE(team.diaries[2].wait([&] { return team.diaries[2].messages.size() == 2; }));
  EXPECT_TRUE(team.diaries[0].wait([&] { return team.diaries[0].messages.size() == 2; }));
  EXPECT_EQ(team.diaries[2].messages[0].process, 1);
  EXPECT_EQ(team.diaries[2].messages[0].type, 4);
  EXPECT_EQ(team.diaries[2].messages[0].text, "between others");
  EXPECT_EQ(team.diaries[2].messages[1].text, large);
  team.together([&](std::size_t process) { EXPECT_TRUE(team.links[process]->close()); });
  for (Diary& diary : team.diaries) EXPECT_TRUE(diary.losses.empty());
}

TEST(ControlLink, AJobOfOneProcessTalksToItself) {
  Diary diary;
  ControlLink link({}, Topology(4, 1, 0), {}, nullptr, diary.handlers(0));
  link.agree({{"config", "1"}});
  link.send(0, 1, bytes_of(std::string_view("hello")));
  EXPECT_TRUE(diary.wait([&] { return diary.messages.size() == 1; }));
  EXPECT_TRUE(link.report_failure(ExitCode::data, "is printed here"));
  EXPECT_TRUE(link.close());
}

TEST(ControlLink, NamesWhoHasNotJoined) {
  ClusterConfig config;
  config.start_timeout_ms = 200;
  Listener listener(config, true);
  try {
    ControlLink(config, Topology(3, 3, 0), listener.rendezvous(), &listener, {});
    FAIL() << "joined nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::start);
    EXPECT_TRUE(contains(error.what(), "have not joined: 1, 2")) << error.what();
  }
}

TEST(ControlLink, AnInterfaceThatIsNotThereIsNamed) {
  ClusterConfig config;
  config.interface = "nosuch0";
  try {
    Listener listener(config, false);
    FAIL() << "listens";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::start);
    EXPECT_TRUE(contains(error.what(), "nosuch0"));
    EXPECT_TRUE(contains(error.what(), "127.0.0.1"));
  }
}

// -- strangers --------------------------------------------------------------------------

class Stranger {
 public:
  explicit Stranger(const Rendezvous& rendezvous) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(rendezvous.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{20, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Stranger() { close(descriptor_); }
  void send(std::span<const std::byte> bytes) { EXPECT_GT(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0); }
  void send(FrameKind kind, std::span<const std::byte> payload) {
    std::vector<std::byte> frame;
    append_frame(frame, {.kind = static_cast<std::uint16_t>(kind)}, payload, nullptr);
    send(frame);
  }
  std::vector<std::byte> receive(std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    EXPECT_EQ(recv(descriptor_, out.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    return out;
  }
  /// Whether the other side closed the connection (and did not just stop sending).
  bool is_refused() {
    char byte = 0;
    const ssize_t got = recv(descriptor_, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  int descriptor_;
};

TEST(ControlLink, RefusesAWrongSecretAnOversizedFrameAndNoise) {
  Team team(2, {0});
  {
    Stranger stranger(team.rendezvous);
    Hello hello;
    hello.process = 1;
    stranger.send(FrameKind::hello, bytes_of(hello));
    stranger.receive(frame_header_bytes + 64 + frame_mac_bytes);
    stranger.send(FrameKind::proof, bytes_of(random_bytes32()));
    EXPECT_TRUE(stranger.is_refused());
  }
  {
    Stranger stranger(team.rendezvous);
    std::vector<std::byte> header(frame_header_bytes);
    header[2] = std::byte{1};  // 65536 bytes
    stranger.send(header);
    EXPECT_TRUE(stranger.is_refused());
  }
  {
    Stranger stranger(team.rendezvous);
    stranger.send(FrameKind::message, bytes_of(std::string_view("GET / HTTP/1.1")));
    EXPECT_TRUE(stranger.is_refused());
  }
  {
    Stranger stranger(team.rendezvous);
    Hello hello;
    hello.process = 2;  // in a job of two
    stranger.send(FrameKind::hello, bytes_of(hello));
    EXPECT_TRUE(stranger.is_refused());
  }
  FakePeer peer(team.rendezvous, 1);  // the right process can still join
  team.joined();
  EXPECT_TRUE(team.links[0]);
}

TEST(ControlLink, AListenerWithoutTheSecretIsNotBelieved) {
  Team team(2, {0});
  Rendezvous wrong = team.rendezvous;
  wrong.secret[31] ^= std::byte{1};
  ClusterConfig config;
  config.start_timeout_ms = 100;
  try {
    connect_to(wrong, 1, config);
    FAIL() << "connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::start);
    EXPECT_TRUE(contains(error.what(), "secret")) << error.what();
  }
  FakePeer peer(team.rendezvous, 1);
  team.joined();
}

TEST(ControlLink, SilentStrangersDoNotHoldTheDoorShut) {
  Team team(2, {0});
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int count = 0; count < 60; ++count) crowd.push_back(std::make_unique<Stranger>(team.rendezvous));
  std::unique_ptr<FakePeer> peer;
  try {
    ClusterConfig one_knock;
    one_knock.start_timeout_ms = 1;
    peer = std::make_unique<FakePeer>(team.rendezvous, 1, one_knock);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
    crowd.clear();
    peer = std::make_unique<FakePeer>(team.rendezvous, 1);
  }
  team.joined();
}

TEST(ControlLink, AnAddressWhereNobodyAnswersDoesNotKeepAProcessOut) {
  ClusterConfig config;
  config.start_timeout_ms = 9000;
  Team team(2, {0}, config);
  // Listens without answering on four addresses that come before the right one.
  std::vector<int> silent;
  Rendezvous crooked = team.rendezvous;
  crooked.host.fill('\0');  // another host: the loopback is not tried first
  crooked.addresses = 0;
  for (int last = 2; last < 6; ++last) {
    const std::string text = fmt::format("127.0.0.{}", last);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(team.rendezvous.port);
    ASSERT_EQ(inet_pton(AF_INET, text.c_str(), &address.sin_addr), 1);
    silent.push_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(bind(silent.back(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(silent.back(), 8), 0);
    crooked.address[crooked.addresses].fill('\0');
    std::copy(text.begin(), text.end(), crooked.address[crooked.addresses++].begin());
  }
  crooked.address[crooked.addresses++] = team.rendezvous.address[0];
  const FakePeer peer(crooked, 1);
  team.joined();
  EXPECT_TRUE(team.links[0]) << "process 0 gave up before";
  for (const int descriptor : silent) close(descriptor);
}

TEST(ControlLink, PausesBeforeItAcceptsAgainWhenNoDescriptorIsLeft) {
  Team team(2, {0});
  no_descriptor_is_left = true;
  const Stranger knocking(team.rendezvous);
  while (accepts_refused == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(accepts_refused, 100) << "without a pause there are a hundred thousand";
  no_descriptor_is_left = false;
  FakePeer peer(team.rendezvous, 1);  // and then it accepts connections again
  team.joined();
}

// -- agreement --------------------------------------------------------------------------

TEST(ControlLink, ADifferentHashIsNamedEverywhere) {
  Team team(3, {0, 1, 2});
  team.joined();
  team.together([&](std::size_t process) {
    try {
      team.links[process]->agree({{"build", "b1"}, {"config", process == 2 ? "c2" : "c1"}});
      ADD_FAILURE() << "agreed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::start);
      EXPECT_EQ(std::string(error.what()), "[cluster.agree] config differs: process 2 on " + host_name() +
                                               " (rank 2) has c2, process 0 on " + host_name() + " has c1");
    }
  });
  team.together([&](std::size_t process) { EXPECT_TRUE(team.links[process]->close()); });
}

TEST(ControlLink, AHashThatAProcessDoesNotKnowIsNotCompared) {
  Team team(3, {0, 1, 2});
  team.joined();
  for (const bool differs : {false, true}) {
    team.together([&](std::size_t process) {
      const std::string hash = process == 1 ? "" : process == 2 && differs ? "d2" : "d1";
      try {
        team.links[process]->agree({{"data", hash}});
        EXPECT_FALSE(differs) << "agreed";
      } catch (const Error& error) {
        EXPECT_TRUE(differs) << error.what();
        EXPECT_TRUE(contains(error.what(), "data differs: process 2 on ")) << error.what();
        EXPECT_FALSE(contains(error.what(), "process 1")) << error.what();
      }
    });
  }
  team.together([&](std::size_t process) { EXPECT_TRUE(team.links[process]->close()); });
}

// -- losses -----------------------------------------------------------------------------

TEST(ControlLink, ASilentProcessIsLostWithWhatItDidLast) {
  Team team(2, {0}, impatient());
  FakePeer peer(team.rendezvous, 1);
  team.joined();
  std::vector<std::byte> heartbeat(1);
  Progress progress{1, 3, 5, 0, 17, {}};
  progress.set_action("input gradient");
  const auto record = bytes_of(progress);
  heartbeat.insert(heartbeat.end(), record.begin(), record.end());
  peer.send(FrameKind::heartbeat, heartbeat);
  Diary& diary = team.diaries[0];
  ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
  ASSERT_EQ(diary.job_losses.size(), 1u);
  EXPECT_EQ(diary.losses.size(), 1u);
  EXPECT_TRUE(diary.speak);
  EXPECT_TRUE(contains(diary.job_losses[0].reason, "it was silent for 0."));
  const std::string text = describe(Topology(2, 2, 0), diary.job_losses);
  EXPECT_TRUE(contains(text, "process 1 on " + host_name() + " (rank 1) was lost: it was silent")) << text;
  EXPECT_TRUE(contains(text, "rank 1: input gradient, stage 3, microbatch 5, step 17")) << text;
}

// Its control thread is held up, as the whole process is when it is stopped; meanwhile the others give it up.
TEST(ControlLink, WhoSleptDoesNotBlameTheOthers) {
  for (const auto& [pause, sleeps] : {std::pair{0, false}, std::pair{2000, true}}) {
    ClusterConfig config;
    config.timeout_ms = sleeps ? 1500 : 60'000;
    Team team(2, {0}, config);
    FakePeer peer(team.rendezvous, 1);
    team.joined();
    Diary& diary = team.diaries[0];
    diary.hold = std::chrono::milliseconds(pause);
    const std::string word = "hold";
    team.links[0]->send(0, 7, std::as_bytes(std::span(word)));
    peer.hang_up();
    ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
    if (!sleeps) {
      EXPECT_EQ(diary.slept, 0);
      continue;
    }
    EXPECT_GT(diary.slept, 1.5);
    EXPECT_TRUE(diary.speak);
    const auto text = describe_sleep(Topology(2, 2, 0), diary.job_losses, 12.34, 400, "The job ends; so be it");
    EXPECT_TRUE(contains(text, "process 0 on " + host_name() + " (rank 0) did not run for 12.3 s: it was stopped by a signal")) << text;
    EXPECT_TRUE(contains(text, "Meanwhile the connection to process 1 on ") && contains(text, "(rank 1) closed")) << text;
    EXPECT_TRUE(contains(text, "cluster.timeout_ms = 400") && contains(text, "The job ends; so be it")) << text;
    EXPECT_FALSE(contains(text, "was lost")) << text;
  }
}

TEST(ControlLink, AClosedSocketIsALossAtOnceAndOnce) {
  Team team(2, {0}, never_silent());
  FakePeer peer(team.rendezvous, 1);
  team.joined();
  peer.hang_up();
  Diary& diary = team.diaries[0];
  ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
  EXPECT_EQ(diary.losses.size(), 1u);
  EXPECT_TRUE(contains(diary.losses[0].reason, "connection"));
}

TEST(ControlSession, WhoDoesNotReadIsGivenUpBeforeTheMemoryIs) {
  boost::asio::io_context io;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  boost::asio::ip::tcp::socket socket(io);
  socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
  std::vector<std::string> reasons;
  const auto session = std::make_shared<ControlSession>(
      std::move(socket), std::size_t{1} << 20, [](auto&, const auto&, auto) {},
      [&](auto&, const std::string& reason) { reasons.push_back(reason); });
  session->authenticate(random_bytes32(), random_bytes32());
  const std::vector<std::byte> message(std::size_t{1} << 16);
  for (int count = 0; count < 100 && reasons.empty(); ++count) {
    session->send({.bytes = static_cast<std::uint32_t>(message.size()), .kind = static_cast<std::uint16_t>(FrameKind::message)}, message);
    io.restart();  // run() has returned, since there was nothing to do
    io.poll();
  }
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_TRUE(contains(reasons[0], "it does not read: ")) << reasons[0];
  close(ends[1]);
}

TEST(ControlLink, HeartbeatsDoNotPileUpForWhoDoesNotRead) {
  boost::asio::io_context io;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  boost::asio::ip::tcp::socket socket(io);
  socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
  const auto session = std::make_shared<ControlSession>(
      std::move(socket), std::size_t{1} << 30, [](auto&, const auto&, auto) {}, [](auto&, const std::string&) {});
  EXPECT_FALSE(session->is_behind());
  const std::vector<std::byte> much(std::size_t{1} << 24);
  session->send({.bytes = static_cast<std::uint32_t>(much.size()), .kind = static_cast<std::uint16_t>(FrameKind::message)}, much);
  io.poll();
  EXPECT_FALSE(session->is_behind()) << "it is being written";
  session->send({.kind = static_cast<std::uint16_t>(FrameKind::heartbeat)}, {});
  EXPECT_TRUE(session->is_behind()) << "and here no further heartbeat follows";
  session->abandon();
  close(ends[1]);
}

TEST(ControlLink, AForgedOrRepeatedFrameEndsTheConnection) {
  for (const bool spoil : {true, false}) {
    Team team(2, {0}, never_silent());
    FakePeer peer(team.rendezvous, 1);
    team.joined();
    const std::vector<std::byte> heartbeat(1);
    peer.send(FrameKind::heartbeat, heartbeat, spoil);
    if (!spoil) {
      std::vector<std::byte> other_order;
      append_frame(other_order, {.kind = static_cast<std::uint16_t>(FrameKind::heartbeat), .from = 1, .sequence = 9}, heartbeat, nullptr);
      peer.write(other_order);
    }
    Diary& diary = team.diaries[0];
    ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
    EXPECT_TRUE(contains(diary.losses[0].reason, "not authentic"));
  }
}

TEST(ControlLink, OthersHearOfALossFromProcessZeroWhichSpeaks) {
  Team team(3, {0, 1, 2});
  team.joined();
  team.links[1].reset();  // destroyed without a goodbye
  for (const std::size_t process : {std::size_t{0}, std::size_t{2}}) {
    Diary& diary = team.diaries[process];
    ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
    ASSERT_EQ(diary.job_losses.size(), 1u);
    EXPECT_EQ(diary.job_losses[0].process, 1);
    EXPECT_EQ(diary.speak, process == 0);
  }
}

TEST(ControlLink, TheLossOfProcessZeroIsSeenByAllAndToldByTheLowest) {
  Team team(3, {0, 1, 2});
  team.joined();
  team.links[0].reset();
  for (const std::size_t process : {std::size_t{1}, std::size_t{2}}) {
    Diary& diary = team.diaries[process];
    ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
    ASSERT_EQ(diary.losses.size(), 1u);
    EXPECT_EQ(diary.losses[0].process, 0);
    EXPECT_EQ(diary.speak, process == 1);
  }
}

TEST(ControlLink, SeveralLossesEndInOneReport) {
  Team team(4, {0, 1, 2, 3});
  team.joined();
  team.links[1].reset();
  team.links[3].reset();
  Diary& diary = team.diaries[0];
  ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
  EXPECT_EQ(diary.job_losses.size(), 2u);
}

TEST(ControlLink, AFailureIsTakenOverByProcessZero) {
  Team team(3, {0, 1, 2});
  team.joined();
  EXPECT_FALSE(team.links[2]->report_failure(ExitCode::numerics, "[train] the loss of step 3 is not finite"));
  for (const std::size_t process : {std::size_t{0}, std::size_t{1}}) {
    Diary& diary = team.diaries[process];
    ASSERT_TRUE(diary.wait([&] { return diary.ends == 1; }));
    EXPECT_EQ(diary.failure_code, ExitCode::numerics);
    EXPECT_TRUE(contains(diary.failure_text, "the loss of step 3 is not finite"));
    EXPECT_EQ(diary.speak, process == 0);
  }
  EXPECT_TRUE(contains(team.diaries[0].failure_text, "process 2 on "));
}

TEST(ControlLink, CloseTellsWhenSomebodyDoesNotCome) {
  Team team(2, {0}, never_silent());
  FakePeer peer(team.rendezvous, 1);
  team.joined();
  EXPECT_FALSE(team.links[0]->close(std::chrono::milliseconds(50)));
}

}  // namespace
}  // namespace millrace::cluster
