#include "cluster/control/control_link.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "cluster/control/control_session.hpp"
#include "cluster/control/hash_agreement.hpp"
#include "cluster/control/peer_failure.hpp"
#include "cluster/control/sleep_watch.hpp"
#include "cluster/host/abort.hpp"
#include "cluster/host/debugger.hpp"
#include "cluster/host/launcher.hpp"
#include "cluster/host/log.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::cluster {

namespace asio = boost::asio;
using boost::system::error_code;
using Milliseconds = std::chrono::milliseconds;
using Clock = ControlSession::Clock;
using SessionPointer = std::shared_ptr<ControlSession>;

namespace {

constexpr auto collect_losses = Milliseconds(150);
// after this time process 0 is no longer expected to report the failure: mpirun kills all processes after the first exit
constexpr auto center_report_delay = Milliseconds(300);
constexpr auto let_frames_out = Milliseconds(50);         // given to outgoing messages before the process exits
constexpr auto launcher_grace = std::chrono::seconds(4);  // mpirun's own clean-up takes two seconds
constexpr auto failure_answer_limit = Milliseconds(300);
constexpr auto handshake_limit = std::chrono::seconds(5);
constexpr auto accept_again = Milliseconds(200);
constexpr std::size_t spare_connections = 16;  // connections from unknown clients, beyond the processes of the job
constexpr std::size_t max_progress_records = 64;
constexpr std::size_t bytes_at_a_time = std::size_t{8} << 20;  // sent between two heartbeats

}  // namespace

/// Everything below runs on the control thread, except functions that lock `mutex` under "callers".
class ControlLink::State {
 public:
  State(const ClusterConfig& settings, const Topology& ranks, const Rendezvous& where, ControlHandlers to_call)
      : config(settings),
        topology(ranks),
        rendezvous(where),
        handlers(std::move(to_call)),
        timer(io),
        loss_timer(io),
        accept_timer(io),
        acceptor(io),
        doorbell(io, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        peers(static_cast<std::size_t>(ranks.processes())),
        last_progress(static_cast<std::size_t>(ranks.processes())),
        is_lost(static_cast<std::size_t>(ranks.processes())) {
    if (!handlers.on_job_lost) {
      handlers.on_job_lost = [this](const std::vector<PeerFailure>& all, double slept, bool speak) {
        if (!is_on_one_host(launch, topology.processes())) end_launcher_after(launcher_grace);
        const std::string advice = speak && handlers.advice ? handlers.advice() : "", waits = handlers.waits ? handlers.waits(all) : "";
        abort_job(ExitCode::peer_lost,
                  slept > 0 ? describe_sleep(topology, all, slept, config.timeout_ms, advice) : describe(topology, all, waits, advice),
                  speak);
      };
    }
    if (!handlers.on_failure) handlers.on_failure = abort_job;
  }

  [[nodiscard]] bool central() const { return topology.process() == 0; }

  // -- callers ------------------------------------------------------------------------

  void submit(FrameKind kind, std::uint16_t type, int to, std::span<const std::byte> payload) {
    const FrameHeader header{static_cast<std::uint32_t>(payload.size()),     static_cast<std::uint16_t>(kind), type,
                             static_cast<std::uint16_t>(topology.process()), static_cast<std::uint16_t>(to),   0};
    {
      const std::lock_guard lock(mutex);
      if (kind == FrameKind::heartbeat && std::exchange(beat_asked, true)) return;
      MILLRACE_CHECK(kind != FrameKind::message || submitted.size() + payload.size() <= control_queue_limit, ExitCode::memory,
                     "cluster.control_link",
                     "{} bytes of messages wait for the control thread and {} more are to be sent to process {}, the limit is {}",
                     submitted.size(), payload.size(), to, control_queue_limit);
      const auto head = bytes_of(header);
      submitted.insert(submitted.end(), head.begin(), head.end());
      submitted.insert(submitted.end(), payload.begin(), payload.end());
    }
    ring();
  }

  void ring() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t rung = ::write(doorbell.native_handle(), &one, sizeof one);
  }

  template <class Condition>
  bool wait(Milliseconds limit, Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, limit, condition);
  }

  void start_thread() {
    listen_to_doorbell();
    next_tick = Clock::now();
    if (topology.processes() > 1) tick({});
    thread = std::thread([this] {
      pthread_setname_np(pthread_self(), "control");
      // Heartbeats must be sent on an overloaded machine too. This thread does almost nothing, so it gets priority if permitted.
      static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -15));
      try {
        io.run();
      } catch (const std::exception& thrown) {
        const auto error = as_error(thrown, "cluster.control_link");
        abort_job(error.code(), error.what());
      }
    });
  }

  // -- joining ------------------------------------------------------------------------

  void serve(Listener& listener) {
    acceptor.assign(listener.is_v6() ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), listener.release());
    accept_next();
  }

  void accept_next() {
    acceptor.async_accept([this](const error_code& error, asio::ip::tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (error && error != asio::error::connection_aborted) return accept_later();
      if (!error) welcome_stranger(std::move(socket));
      accept_next();
    });
  }

  /// The system has no descriptor or memory for a connection, and an immediate retry would fail again.
  void accept_later() {
    accept_timer.expires_after(accept_again);
    accept_timer.async_wait([this](const error_code& error) {
      if (!error && acceptor.is_open()) accept_next();
    });
  }

  /// All unknown clients are served concurrently. If there are too many, the oldest is dropped: a process of the job
  /// authenticates within milliseconds, so a silent client is not one.
  void welcome_stranger(asio::ip::tcp::socket socket) {
    if (strangers.size() >= peers.size() + spare_connections) {
      const SessionPointer oldest = *std::min_element(strangers.begin(), strangers.end(),
                                                      [](const auto& left, const auto& right) { return left->begun < right->begun; });
      oldest->end("other clients are waiting to authenticate");
    }
    auto session = std::make_shared<ControlSession>(
        std::move(socket), control_queue_limit,
        [this](auto& from, const auto& header, auto payload) { on_stranger(from, header, payload); },
        [this](auto& from, const std::string& reason) { on_end(from, reason); });
    strangers.insert(session);
    session->start();
  }

  void on_stranger(ControlSession& session, const FrameHeader& header, std::span<const std::byte> payload) {
    if (session.process >= 0 && !session.handshake) return on_frame(session, header, payload);
    if (header.kind == static_cast<std::uint16_t>(FrameKind::hello) && !session.handshake && payload.size() == sizeof(Hello)) {
      Hello hello;
      std::memcpy(&hello, payload.data(), sizeof hello);
      const bool known =
          hello.version == Hello::right_version && hello.process > 0 && hello.process < peers.size() && !peers[hello.process];
      if (!known) return session.end("it is no process of this job");
      session.process = static_cast<int>(hello.process);
      session.pid = static_cast<pid_t>(hello.pid);
      session.host.assign(hello.host.data(), strnlen(hello.host.data(), hello.host.size()));
      const Bytes32 nonce = random_bytes32();
      session.handshake.emplace(rendezvous.secret, hello, nonce);
      std::array<Bytes32, 2> challenge{nonce, session.handshake->listener_proof};
      return session.send({.kind = static_cast<std::uint16_t>(FrameKind::challenge)}, std::as_bytes(std::span(challenge)));
    }
    Bytes32 proof;
    const bool proves = header.kind == static_cast<std::uint16_t>(FrameKind::proof) && session.handshake && payload.size() == proof.size();
    if (proves) std::memcpy(proof.data(), payload.data(), proof.size());
    if (!proves || !equal(proof, session.handshake->connector_proof) || peers[static_cast<std::size_t>(session.process)]) {
      return session.end("it does not know this job's secret");
    }
    admit(session);
  }

  void admit(ControlSession& session) {
    session.authenticate(session.handshake->listener_key, session.handshake->connector_key);
    session.handshake.reset();
    SessionPointer pointer = session.shared_from_this();
    strangers.erase(pointer);
    send_to(*pointer, FrameKind::welcome, 0, {});
    log_debug({}, "control link: process {} on {} has joined", session.process, session.host);
    const std::lock_guard lock(mutex);
    peers[static_cast<std::size_t>(session.process)] = std::move(pointer);
    if (++joined == topology.processes() - 1) {
      error_code ignored;
      acceptor.close(ignored);
    }
    changed.notify_all();
  }

  void join(const Connection& connection) {
    asio::ip::tcp::socket socket(io, connection.v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), connection.descriptor);
    auto session = std::make_shared<ControlSession>(
        std::move(socket), control_queue_limit, [this](auto& from, const auto& header, auto payload) { on_frame(from, header, payload); },
        [this](auto& from, const std::string& reason) { on_end(from, reason); });
    session->process = 0;
    session->pid = static_cast<pid_t>(rendezvous.pid);
    session->host = rendezvous.host.data();
    session->authenticate(connection.connector_key, connection.listener_key);
    peers[0] = session;
    session->start();
  }

  std::string missing() {
    const std::lock_guard lock(mutex);
    std::string text;
    for (int process = 1; process < topology.processes(); ++process)
      if (!peers[static_cast<std::size_t>(process)]) text += fmt::format("{}{}", text.empty() ? "" : ", ", process);
    return text;
  }

  // -- frames -------------------------------------------------------------------------

  void send_to(ControlSession& session, FrameKind kind, std::uint16_t type, std::span<const std::byte> payload) {
    session.send({.kind = static_cast<std::uint16_t>(kind),
                  .type = type,
                  .from = static_cast<std::uint16_t>(topology.process()),
                  .to = static_cast<std::uint16_t>(session.process)},
                 payload);
  }

  void send_to_all(FrameKind kind, std::uint16_t type, std::span<const std::byte> payload, int except = -1) {
    for (const SessionPointer& peer : peers)
      if (peer && peer->process != except) send_to(*peer, kind, type, payload);
  }

  void on_frame(ControlSession& session, const FrameHeader& header, std::span<const std::byte> payload) {
    if (central() && header.from != session.process) return session.end("it sent a frame in the name of another process");
    switch (static_cast<FrameKind>(header.kind)) {
      case FrameKind::welcome:
        return note([&] { ++joined; });
      case FrameKind::heartbeat:
        return on_heartbeat(session, payload);
      case FrameKind::message:
        return on_message(header, payload);
      case FrameKind::lost:
        return on_told_lost(payload);
      case FrameKind::failure:
        return on_told_failure(session, header, payload);
      case FrameKind::failure_taken:
        return note([&] { failure_taken = true; });
      case FrameKind::goodbye:
        return on_goodbye(session);
      case FrameKind::agree:
        hashes[session.process] = parse_hashes(text_of(payload));
        return compare_hashes();
      case FrameKind::agreed:
        return note([&] { agreement = std::string(text_of(payload)); });
      default:
        return session.end(fmt::format("it sent a frame of kind {}", header.kind));
    }
  }

  template <class Change>
  void note(Change change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }

  void on_message(const FrameHeader& header, std::span<const std::byte> payload) {
    if (header.to == topology.process()) {
      if (handlers.on_message) handlers.on_message(header.from, header.type, payload);
    } else if (central() && header.to < peers.size() && peers[header.to]) {
      peers[header.to]->send(header, payload);
    }
  }

  void listen_to_doorbell() {
    doorbell.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
      if (error) return;
      std::uint64_t rung = 0;
      [[maybe_unused]] const ssize_t got = ::read(doorbell.native_handle(), &rung, sizeof rung);
      if (taken_to == taken.size()) {
        taken.clear();
        taken_to = 0;
        const std::lock_guard lock(mutex);
        std::swap(taken, submitted);
        beat_asked = false;
      }
      const std::size_t stop = taken_to + bytes_at_a_time;
      while (taken_to < std::min(stop, taken.size())) {
        const auto rest = std::span<const std::byte>(taken).subspan(taken_to);
        FrameHeader header;
        std::memcpy(&header, rest.data(), sizeof header);
        taken_to += sizeof header + header.bytes;
        take_submitted(header, rest.subspan(sizeof header, header.bytes));
      }
      if (taken_to < taken.size()) ring();
      listen_to_doorbell();
    });
  }

  void take_submitted(const FrameHeader& header, std::span<const std::byte> payload) {
    switch (static_cast<FrameKind>(header.kind)) {
      case FrameKind::message:
        if (header.to == topology.process() || central()) return on_message(header, payload);
        if (peers[0]) peers[0]->send(header, payload);
        return;
      case FrameKind::agree:
        if (!central()) return send_to_all(FrameKind::agree, 0, payload);
        hashes[0] = parse_hashes(text_of(payload));
        return compare_hashes();
      case FrameKind::heartbeat:
        return send_heartbeats(is_traced());
      case FrameKind::goodbye:
        closing = true;
        return central() ? say_goodbyes() : send_to_all(FrameKind::goodbye, 0, {});
      default:
        return send_to_all(static_cast<FrameKind>(header.kind), header.type, payload);
    }
  }

  // -- agreement ----------------------------------------------------------------------

  [[nodiscard]] std::string host_of(int process) const {
    const SessionPointer& peer = peers[static_cast<std::size_t>(process)];
    return peer ? peer->host : host_name();
  }

  void compare_hashes() {
    if (hashes.size() < peers.size()) return;
    const std::string text = disagreement(hashes, topology, [this](int process) { return host_of(process); });
    hashes.clear();
    send_to_all(FrameKind::agreed, 0, bytes_of(std::string_view(text)));
    note([&] { agreement = text; });
  }

  // -- signs of life ------------------------------------------------------------------

  void on_heartbeat(ControlSession& session, std::span<const std::byte> payload) {
    if (payload.empty() || payload.size() - 1 > max_progress_records * sizeof(Progress)) return;
    session.traced = payload[0] != std::byte{0};
    auto& records = last_progress[static_cast<std::size_t>(session.process)];
    records.resize((payload.size() - 1) / sizeof(Progress));
    if (!records.empty()) std::memcpy(records.data(), payload.data() + 1, records.size() * sizeof(Progress));
    if (handlers.heard) handlers.heard(session.process, records);
  }

  void send_heartbeats(bool traced) {
    std::array<Progress, max_progress_records> records;
    const std::size_t count = handlers.progress ? std::min(handlers.progress(records), records.size()) : 0;
    heartbeat.resize(1 + count * sizeof(Progress));
    heartbeat[0] = std::byte{traced};
    std::memcpy(heartbeat.data() + 1, records.data(), count * sizeof(Progress));
    // A peer that has not read the previous heartbeats gets the next one when it has.
    for (const SessionPointer& peer : peers)
      if (peer && !peer->is_behind()) send_to(*peer, FrameKind::heartbeat, 0, heartbeat);
  }

  void tick(const error_code& error) {
    if (error) return;
    const auto now = Clock::now();
    const auto timeout = Milliseconds(config.timeout_ms);
    const bool traced = is_traced();
    // If our own timer is late, this process did not run, nor perhaps did the peers: their silence proves nothing.
    const auto period = Milliseconds(std::max(1, config.heartbeat_ms));
    const auto late_by = sleeping.fired(SleepWatch::now(), SleepWatch::now() + period);
    const bool late = now - next_tick > timeout / 2 || late_by > timeout / 2;
    if (overslept.count() > 0 && losses.empty())
      log_warning("process {} on {} ({}) {}. The job continues, but the others end it after cluster.timeout_ms = {} if they notice",
                  topology.process(), own_host, ranks_text(topology, topology.process()), sleep_text(overslept), config.timeout_ms);
    overslept = config.timeout_ms > 0 && late_by > timeout && !traced ? late_by : SleepWatch::Time(0);
    send_heartbeats(traced);
    for (std::size_t index = 0; index < peers.size(); ++index) {
      const SessionPointer peer = peers[index];
      if (!peer) continue;
      if (late || traced || peer->traced) peer->last_heard = now;
      if (config.timeout_ms <= 0 || now - peer->last_heard <= timeout || is_lost[index]) continue;
      if (peer->host == own_host && is_traced(peer->pid)) {
        peer->last_heard = now;
        continue;
      }
      lose(*peer, fmt::format("it was silent for {:.2f} s", std::chrono::duration<double>(now - peer->last_heard).count()));
      peer->abandon();
      note([&] { peers[index].reset(); });
    }
    for (auto place = strangers.begin(); place != strangers.end();) {
      const SessionPointer stranger = *place++;  // end() removes it from the set
      if (now - stranger->begun > handshake_limit) stranger->end("it did not authenticate");
    }
    next_tick = now + period;
    timer.expires_at(next_tick);
    timer.async_wait([this](const error_code& waited) { tick(waited); });
  }

  // -- the end of others --------------------------------------------------------------

  void on_end(ControlSession& session, const std::string& reason) {
    const SessionPointer keep = session.shared_from_this();
    if (strangers.erase(keep) > 0) return log_debug({}, "control link: a connection was refused: {}", reason);
    // A process that was notified of a failure exits by itself once all failures have been collected, on a busy machine possibly
    // before our own message is sent: that is not a further failure.
    const bool leaves = central() && !losses.empty() && Clock::now() >= loss_timer.expiry();
    if (!session.said_goodbye && !leaves) lose(session, reason);
    if (reported_by_center && !losses.empty() && session.process == 0 && !leaving) leave_after(Milliseconds(0));  // it has reported
    note([&] { peers[static_cast<std::size_t>(session.process)].reset(); });
  }

  void lose(ControlSession& session, const std::string& reason) {
    PeerFailure loss{session.process, session.host, reason, std::chrono::duration<double>(Clock::now() - session.last_heard).count(),
                     last_progress[static_cast<std::size_t>(session.process)]};
    if (central()) send_to_all(FrameKind::lost, 0, peer_failure_bytes(loss), session.process);
    lost(std::move(loss), central() || !reported_by_center);
  }

  void on_told_lost(std::span<const std::byte> payload) {
    reported_by_center = true;  // it is alive and reports; its exit soon afterwards is not a further failure
    lost(peer_failure_from_bytes(payload), false);
  }

  void lost(PeerFailure loss, bool first_hand) {
    if (loss.process < 0 || loss.process >= topology.processes() || leaving || (!first_hand && loss.process == topology.process())) return;
    if (!first_hand && loss.process == 0) return;
    auto known = is_lost.begin() + loss.process;
    if (*known) return;
    *known = true;
    if (handlers.on_lost) handlers.on_lost(loss);
    losses.push_back(std::move(loss));
    if (losses.size() == 1)
      leave_after(reported_by_center || !is_beside_center(launch, topology.process(), topology.processes())
                      ? collect_losses + center_report_delay
                      : collect_losses);
  }

  void leave_after(Milliseconds time) {
    loss_timer.expires_after(time);
    loss_timer.async_wait([this](const error_code& error) {
      if (error || leaving) return;
      leaving = true;
      // Whoever slept tells it: nobody else knows, and to it the others are the lost ones.
      const double slept = sleeping.seconds_beyond(Milliseconds(config.timeout_ms), SleepWatch::now());
      handlers.on_job_lost(losses, slept, slept > 0 || (!reported_by_center && reports_peer_failures(launch, topology.process(), is_lost)));
    });
  }

  void on_told_failure(ControlSession& session, const FrameHeader& header, std::span<const std::byte> payload) {
    if (central()) send_to(session, FrameKind::failure_taken, 0, {});
    reported_by_center = !central();
    if (leaving) return;
    leaving = true;
    if (central()) send_to_all(FrameKind::failure, header.type, payload, session.process);
    std::string message(text_of(payload));
    if (central())
      message = fmt::format("process {} on {} ({}): {}", session.process, session.host, ranks_text(topology, session.process), message);
    loss_timer.expires_after(let_frames_out);
    loss_timer.async_wait([this, message, code = static_cast<ExitCode>(header.type)](const error_code& error) {
      if (!error) handlers.on_failure(code, message, central());
    });
  }

  // -- goodbye ------------------------------------------------------------------------

  void on_goodbye(ControlSession& session) {
    session.said_goodbye = true;
    if (central()) return say_goodbyes();
    session.end("goodbye");
  }

  /// When all have said goodbye, process 0 answers, and they close.
  void say_goodbyes() {
    if (!closing) return;
    if (std::any_of(peers.begin(), peers.end(), [](const SessionPointer& peer) { return peer && !peer->said_goodbye; })) return;
    send_to_all(FrameKind::goodbye, 0, {});
  }

  const ClusterConfig config;
  const Topology topology;
  const Rendezvous rendezvous;
  const std::string own_host = host_name();
  const Launch launch = launch_from_environment();
  ControlHandlers handlers;

  asio::io_context io{1};
  asio::steady_timer timer, loss_timer, accept_timer;
  asio::ip::tcp::acceptor acceptor;
  asio::posix::stream_descriptor doorbell;
  std::thread thread;

  std::set<SessionPointer> strangers;
  // by process; written under `mutex`. Process 0 is connected to all others, the others only to process 0.
  std::vector<SessionPointer> peers;
  std::vector<std::vector<Progress>> last_progress;
  std::vector<bool> is_lost;
  std::vector<PeerFailure> losses;
  std::map<int, NamedHashes> hashes;
  std::vector<std::byte> heartbeat, taken;
  std::size_t taken_to = 0;
  Clock::time_point next_tick;
  SleepWatch sleeping;
  SleepWatch::Time overslept{0};  // found at the last tick, said at the next unless the others have given this process up
  bool reported_by_center = false;
  bool leaving = false;
  bool closing = false;

  std::mutex mutex;  // guards the members below, and writes to `peers`
  std::condition_variable changed;
  std::vector<std::byte> submitted;
  bool beat_asked = false;  // a heartbeat is among the submitted messages
  int joined = 0;
  bool failure_taken = false;
  std::optional<std::string> agreement;
};

ControlLink::ControlLink(const ClusterConfig& config, const Topology& topology, const Rendezvous& rendezvous, Listener* listener,
                         ControlHandlers handlers)
    : state_(std::make_unique<State>(config, topology, rendezvous, std::move(handlers))) {
  State& state = *state_;
  const bool alone = topology.processes() == 1;
  if (!alone && state.central()) {
    MILLRACE_CHECK(listener != nullptr, ExitCode::internal, "cluster.control_link", "process 0 has no listener");
    state.serve(*listener);
  } else if (!alone) {
    state.join(connect_to(rendezvous, topology.process(), config));
  }
  state.start_thread();
  const int expected = alone ? 0 : state.central() ? topology.processes() - 1 : 1;
  const bool complete = state.wait(Milliseconds(config.start_timeout_ms), [&] { return state.joined >= expected; });
  if (complete) return;
  const std::string missing = state.missing();
  state.io.stop();
  state.thread.join();
  fail(ExitCode::start, "cluster.control_link", "after {} s {}", config.start_timeout_ms / 1000.0,
       state.central() ? "these processes have not joined: " + missing : "process 0 has not answered");
}

ControlLink::~ControlLink() {
  state_->io.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

void ControlLink::send(int process, std::uint16_t type, std::span<const std::byte> bytes) {
  MILLRACE_CHECK(process >= 0 && process < state_->topology.processes(), ExitCode::internal, "cluster.control_link",
                 "a message to process {} of {}", process, state_->topology.processes());
  MILLRACE_CHECK(bytes.size() <= frame_limit, ExitCode::internal, "cluster.control_link", "a message of {} bytes, the limit is {}",
                 bytes.size(), frame_limit);
  state_->submit(FrameKind::message, type, process, bytes);
}

void ControlLink::agree(const std::map<std::string, std::string>& hash_by_name, Milliseconds limit) {
  const std::string verdict = compare(hash_by_name, limit);
  if (!verdict.empty()) throw Error(ExitCode::start, verdict);
}

std::string ControlLink::compare(const std::map<std::string, std::string>& hash_by_name, Milliseconds limit) {
  State& state = *state_;
  const std::string text = hashes_text(hash_by_name);
  state.submit(FrameKind::agree, 0, 0, bytes_of(std::string_view(text)));
  if (limit.count() == 0) limit = Milliseconds(state.config.start_timeout_ms);
  const bool answered = state.wait(limit, [&] { return state.agreement.has_value(); });
  MILLRACE_CHECK(answered, ExitCode::start, "cluster.agree", "not all processes compared hashes within {} s",
                 static_cast<double>(limit.count()) / 1000.0);
  std::unique_lock lock(state.mutex);
  return *std::exchange(state.agreement, std::nullopt);
}

void ControlLink::beat() {
  if (state_->topology.processes() > 1) state_->submit(FrameKind::heartbeat, 0, 0, {});
}

bool ControlLink::report_failure(ExitCode code, const std::string& message) {
  State& state = *state_;
  if (state.topology.processes() == 1) return true;
  state.submit(FrameKind::failure, static_cast<std::uint16_t>(code), 0,
               bytes_of(std::string_view(message)).first(std::min<std::size_t>(message.size(), 65536)));
  if (state.central()) {
    std::this_thread::sleep_for(let_frames_out);
    return true;
  }
  return !state.wait(failure_answer_limit, [&] { return state.failure_taken; });
}

bool ControlLink::close(Milliseconds limit) {
  State& state = *state_;
  bool all = true;
  if (state.topology.processes() > 1) {
    state.submit(FrameKind::goodbye, 0, 0, {});
    all = state.wait(limit,
                     [&] { return std::none_of(state.peers.begin(), state.peers.end(), [](const auto& peer) { return bool(peer); }); });
  }
  asio::post(state.io, [&state] { state.io.stop(); });
  if (state.thread.joinable()) state.thread.join();
  return all;
}

}  // namespace millrace::cluster
