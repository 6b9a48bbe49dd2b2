// Which kernel computes a product, by its sizes and the device; all give the same bits.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>

#include "few_lines.cuh"
#include "shallow.cuh"
#include "shallow_tile.cuh"
#include "short_lines.cuh"
#include "skinny.cuh"
#include "split_k.cuh"
#include "tensor_float64.cuh"
#include "tile.cuh"

namespace torch_reductions::cuda::matmul {

// T: float, double, or the unsigned integer that products are computed in; or a type that is widened to one of them.
template <class T, class Out>
class ProductPlan {
  template <class Shape>
  static constexpr bool kIsLarge = std::is_same_v<Shape, LargeTile>;
  // Of which there is no kernel in parts, or that copies 16 bytes at once.
  template <class Shape>
  static constexpr bool kIsPlain =
      std::is_same_v<Shape, TinyTile> || std::is_same_v<Shape, EarlyTile> || Shape::kPredicated;
  using P = ProductOf<T>;
  static constexpr int kV = 16 / int(sizeof(T)), kOutVector = 16 / int(sizeof(P));

 public:
  ProductPlan(const MatmulArgs& args, Context& context)
      : args_(args),
        context_(context),
        multiprocessors_(multiprocessors(context.device)),
        chunks_(ceil_div(args.k, kProductChunk)),
        a_(operand(args.a, args.m, args.a.row_stride, args.a.column_stride)),
        b_(operand(args.b, args.n, args.b.column_stride, args.b.row_stride)) {}

  void run() {
    if (args_.k == 0) return multiply_split_k<P, Out>(args_, context_, 0, 1, [](int64_t, int64_t, P*) {});
    if constexpr (std::is_floating_point_v<T>) {
      if (args_.parts == 1 && std::max(args_.m, args_.n) >= kShallowLeast) {
        const bool is_small = sizeof(T) == 4 && args_.batch * args_.m * args_.n < kShallowResults;
        const bool idles = sizeof(T) == 4 && args_.n > kShallowNarrow && args_.n <= kShallowIdle && args_.n < args_.m;
        if (args_.k <= 8 && !idles && (sizeof(T) == 8 || is_small || std::min(args_.m, args_.n) <= kShallowFew))
          return shallow<8, 4>();
        if (args_.k <= 16 && (sizeof(T) == 8 ? !stores_directly() : is_small)) return shallow<16, 2>();
      }
      if (are_short_lines()) return short_lines();
    }
    if constexpr (std::is_same_v<T, P>) {
      const int64_t few = std::min(args_.m, args_.n);
      if (args_.parts == 1 && few < TinyTile::kM && suits_few_lines()) return few_lines();
      if (args_.parts == 1 && few <= kSkinnyRows) return skinny();
    }
    choose(typename Tuning<T>::Tiles());
    (this->*tiles_)();
  }

 private:
  // A stride along one element may be anything.
  Operand<T> operand(const Matrix& matrix, int64_t lines, int64_t mn_stride, int64_t k_stride) const {
    if (lines == 1 && k_stride != 1) mn_stride = 1;
    if (args_.k == 1 && mn_stride != 1) k_stride = 1;
    return {static_cast<const T*>(matrix.data), matrix.batch_stride, mn_stride, k_stride, lines};
  }

  static bool is_k_major(const Operand<T>& x) { return x.mn_stride != 1 || x.k_stride == 1; }

  // Do neighbours in memory lie in whole aligned vectors, except for the end of a line along k?
  bool in_vectors(const Operand<T>& x) const {
    const bool along_k = is_k_major(x);
    return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && (along_k ? x.mn_stride : x.k_stride) % kV == 0 &&
           x.batch_stride % kV == 0 && (along_k || x.lines % kV == 0);
  }

  // May lines that are neighbours in memory be copied in vectors?
  bool copies_vectors(const Operand<T>& x) const { return !is_k_major(x) && in_vectors(x); }

  // The same, or elements of a line?
  bool copies_vectors_of(const Operand<T>& x) const { return in_vectors(x) && (!is_k_major(x) || args_.k % kV == 0); }

  // body(constant layout), with vectors where MnVectors or KVectors allows them and every one is whole and aligned.
  template <bool MnVectors, bool KVectors, class Body>
  void with_layout(const Operand<T>& x, Body body) const {
    if constexpr (!std::is_same_v<T, P>) body(std::integral_constant<Layout, Layout::any>());
    else if (!is_k_major(x)) {
      if constexpr (MnVectors) {
        if (copies_vectors(x)) return body(std::integral_constant<Layout, Layout::mn_major_vec>());
      }
      body(std::integral_constant<Layout, Layout::mn_major>());
    } else {
      if constexpr (KVectors) {
        if (copies_vectors_of(x)) return body(std::integral_constant<Layout, Layout::k_major_vec>());
      }
      body(std::integral_constant<Layout, Layout::k_major>());
    }
  }

  // body(are there parts?), of types that have them.
  template <class Shape, class Body>
  void with_parts(Body body) const {
    if constexpr (std::is_floating_point_v<T> && !kIsPlain<Shape>) {
      if (args_.parts > 1) return body(std::true_type());
    }
    body(std::false_type());
  }

  // body(is the operand K-major?)
  template <class Body>
  static void with_major(const Operand<T>& x, Body body) {
    if (is_k_major(x)) body(std::true_type());
    else body(std::false_type());
  }

  // --- Shallow products ----------------------------------------------------------------------------------------------

  // Lanes lie along the rows of the result, unless these are short.
  template <int Depth, int Lines>
  void shallow() {
    using Sizes = ShallowSizes<Depth, Lines>;
    const bool lines_are_rows = args_.n <= kShallowNarrow && args_.n < args_.m;
    const Operand<T>&rows = lines_are_rows ? b_ : a_, &lines = lines_are_rows ? a_ : b_;
    ShallowJob<T> job{args_, rows, lines, {args_.n, 1}, {args_.added.row_stride, args_.added.column_stride}};
    if (lines_are_rows) std::swap(job.out.row, job.out.line), std::swap(job.added.row, job.added.line);
    // As many rows a warp as leave work for every multiprocessor: it reads its lines once for all of them.
    for (job.log_rows = most_log_shallow_rows(sizeof(T), args_.n * sizeof(T) % 32 == 0);; job.log_rows--) {
      job.log_down = 0;
      while (job.log_down < kLogShallowWarps && int64_t(1) << (job.log_rows + job.log_down) < rows.lines)
        job.log_down++;
      const int64_t wide = int64_t(Sizes::kLinesOfWarp) << (kLogShallowWarps - job.log_down);
      job.row_groups = unsigned(ceil_div(rows.lines, int64_t(1) << (job.log_rows + job.log_down)));
      job.line_groups = unsigned(ceil_div(lines.lines, wide));
      const int64_t blocks = args_.batch * job.row_groups * job.line_groups;
      if (job.log_rows > kLeastLogShallowRows && blocks < kShallowBlocks * multiprocessors_) continue;
      const size_t of_rows = sizeof(T) * Sizes::rows(job.log_rows + job.log_down);
      const size_t of_lines = sizeof(T) * Sizes::lines(job.log_down);
      job.staged = Sizes::kStages && is_k_major(lines) && of_rows + of_lines <= size_t(shared_memory(context_.device));
      return launch(multiply_shallow<T, Depth, Lines>, blocks, kShallowThreads, of_rows + job.staged * of_lines,
                    context_.stream, job);
    }
  }

  // --- Few lines by many, with a short k -----------------------------------------------------------------------------

  bool are_short_lines() const {
    const int64_t few = std::min(args_.m, args_.n), many = std::max(args_.m, args_.n);
    const bool are_many = args_.batch * many >= multiprocessors_ * kManyShortLinesOfSm;
    return args_.parts == 1 && few >= (are_many ? kLeastFewOfMany : kLeastFew) && few <= kMostFew &&
           args_.k <= (are_many ? kMostShortDepthOfMany : kMostShortDepth) &&
           args_.batch * many >= multiprocessors_ * kShortLinesOfSm &&
           sizeof(T) * ShortLinesSizes(int(args_.k), true).elements() <= size_t(shared_memory(context_.device));
  }

  void short_lines() {
    SkinnyJob<T> job = skinny_job();
    job.line_groups = unsigned(ceil_div(job.many.lines, int64_t(kShortLines)));
    with_major(job.many, [&](auto k_major) {
      launch(multiply_short_lines<T, k_major>, args_.batch * job.line_groups, kShortLines,
             sizeof(T) * ShortLinesSizes(int(args_.k), k_major).elements(), context_.stream, job);
    });
  }

  // --- Skinny products -----------------------------------------------------------------------------------------------

  // Where both are at most kSkinnyRows, rows are the few, as they are with more columns.
  SkinnyJob<T> skinny_job() const {
    const bool few_are_columns = args_.m > kSkinnyRows && args_.n <= args_.m;
    const Operand<T>&few = few_are_columns ? b_ : a_, &many = few_are_columns ? a_ : b_;
    SkinnyJob<T> job{args_, few, many, few_are_columns};
    job.line_groups = unsigned(ceil_div(many.lines, int64_t(32)));
    job.first = 0, job.last = chunks_, job.partials = nullptr;
    return job;
  }

  void skinny() {
    SkinnyJob<T> job = skinny_job();
    with_layout<sizeof(T) == 4, sizeof(T) == 4>(job.many, [&](auto layout) {
      if (job.few.lines == 1) skinny<1, layout>(job);
      else skinny<kSkinnyRows, layout>(job);
    });
  }

  // The same where blocks are few.
  void few_lines() {
    SkinnyJob<T> job = skinny_job();
    with_major(job.many, [&](auto k_major) {
      const int64_t few = job.few.lines, groups = args_.batch * job.line_groups;
      const size_t bytes = sizeof(T) * FewSizes<T, k_major>::of_stage(int(few));
      const auto start = [&](int64_t chunks) {
        // Of all blocks that may run at the same time.
        const int64_t blocks = std::min(ceil_div(groups * chunks, int64_t(multiprocessors_)), kMostFewBlocks);
        const int stages = int(std::clamp(int64_t(shared_memory(context_.device) / (bytes * blocks)), int64_t(1),
                                          std::min(int64_t(kFewStages), ceil_div(args_.k, int64_t(kFewDepth)))));
        const auto kernel =
            few <= kFewThreads / 32 * 2 ? multiply_few_lines<T, 2, k_major> : multiply_few_lines<T, 4, k_major>;
        launch(kernel, groups * chunks, kFewThreads, stages * bytes, context_.stream, job, stages);
      };
      if (chunks_ == 1) return start(1);
      multiply_split_k<P, Out>(args_, context_, chunks_, partials_at_once(1),
                               [&](int64_t first, int64_t count, P* partials) {
                                 job.first = first, job.last = first + count, job.partials = partials;
                                 start(count);
                               });
    });
  }

  // Are blocks that take 32 lines and a chunk of k at once few enough, or faster even if they are many?
  bool suits_few_lines() const {
    const SkinnyJob<T> job = skinny_job();
    const bool by_vectors = sizeof(T) == 4 && copies_vectors_of(job.many);
    const int64_t few = job.few.lines;
    if constexpr (std::is_same_v<T, double>)
      if (few > kFewOfTensor && few * args_.k > kFewElementsOfTensor && tensor_runs()) return false;
    return args_.batch * job.line_groups * chunks_ <=
           few_blocks(few, args_.k, sizeof(T), by_vectors) * multiprocessors_;
  }

  template <int Rows, Layout kLayout>
  void skinny(SkinnyJob<T>& job) {
    const int64_t groups = args_.batch * job.line_groups;
    constexpr size_t kBytes = SkinnySizes<T, Rows, kLayout>::kBytes;
    const int64_t most = std::min(int64_t(skinny_warps(sizeof(T))), int64_t(shared_memory(context_.device) / kBytes));
    const auto start = [&](int64_t warps) {
      const int64_t blocks = groups * ceil_div(job.last - job.first, warps);
      launch(multiply_skinny<T, Rows, kLayout>, blocks, unsigned(32 * warps), warps * kBytes, context_.stream, job);
    };
    // One launch, unless a few multiprocessors would have all the work.
    if (chunks_ <= most && (chunks_ < kSkinnySpread || 4 * groups >= multiprocessors_)) return start(chunks_);
    multiply_split_k<P, Out>(
        args_, context_, chunks_, partials_at_once(1), [&](int64_t first, int64_t count, P* partials) {
          job.first = first, job.last = first + count, job.partials = partials;
          const int64_t share = std::max(groups * count / multiprocessors_, int64_t(1));  // warps, spread evenly
          start(std::min({share, std::max(most / 2, int64_t(1)), count}));
        });
  }

  // --- Tiles ---------------------------------------------------------------------------------------------------------

  // The sizes of every shape, and what each would cost, in products that one multiprocessor computes: the busiest has
  // ceil(blocks / multiprocessors) blocks. Of two that cost the same the first is taken, as EarlyTile before LowTile. A run
  // of 0 chunks stands for all of k.
  template <class... Shapes>
  void choose(List<Shapes...>) {
    double least = INFINITY;
    const auto consider = [&](auto tile) {
      using Shape = typename decltype(tile)::type;
      for (int run = 0; run <= (args_.parts > 1 ? 0 : kMostRun); run = run == 0 ? 1 : 2 * run) {
        const double cost = this->template cost<Shape>(run);
        if (cost < least) least = cost, tiles_ = &ProductPlan::tiles<Shape>, run_ = run;
      }
    };
    (consider(std::type_identity<Shapes>()), ...);
  }

  // Do the tensor cores multiply float64? Only of 9.0 it is known that their bits are those of fma.
  bool tensor_runs() const { return architecture(context_.device) == 90 && tensor_tiles_compiled<T>(); }

  // Are rows of results whole vectors?
  bool is_wide() const { return args_.n % kOutVector == 0; }
  // And may they go to the output as they are, in vectors, with what is added, if that lies in vectors too?
  bool stores_directly(bool loads_vectors = true) const {
    const Matrix& added = args_.added;
    const bool adds = added.data == nullptr ||
                      (loads_vectors && added.column_stride == 1 && reinterpret_cast<uintptr_t>(added.data) % 16 == 0 &&
                       added.row_stride % kOutVector == 0 && added.batch_stride % kOutVector == 0);
    return is_wide() && std::is_same_v<Out, P> && adds && reinterpret_cast<uintptr_t>(args_.output) % 16 == 0;
  }

  // Is every stage checked, because a tile is larger?
  template <class Shape, int Lines>
  bool checks_edges(const Operand<T>& x) const {
    const bool takes_fewer = is_k_major(x) ? Shape::kPredicated : takes_fewer_lines<Shape>(args_.parts > 1);
    return !Shape::kShallow && !Shape::kTensor && x.lines < Lines && !takes_fewer;
  }

  template <class Shape>
  double cost(int run) const {
    if (Shape::kShallow &&
        (run > 0 || args_.parts > 1 || args_.k > (stores_directly() ? kShallowTileDepth : kMostShallowTileDepth)))
      return INFINITY;
    if (run == 0 ? args_.k > kMostDepth : run >= chunks_ && run > 1) return INFINITY;
    if (most_bytes<Shape>() > size_t(shared_memory(context_.device))) return INFINITY;
    if (kIsPlain<Shape> && args_.parts > 1) return INFINITY;
    if (kIsLarge<Shape> && args_.parts > 1 && !copies_vectors(a_) && !copies_vectors(b_)) return INFINITY;
    if constexpr (Shape::kTensor) {
      if (!tensor_runs()) return INFINITY;
      if (Shape::kM == DmmaTile::kM && std::min(args_.m, args_.n) < DmmaTile::kM) return INFINITY;
    }
    const int64_t at_once = run == 0 ? chunks_ : std::min(partials_at_once(run), chunks_);
    const double tiles =
        double(args_.batch) * ceil_div(args_.m, int64_t(Shape::kM)) * ceil_div(args_.n, int64_t(Shape::kN));
    const double busiest = std::ceil(tiles * (run == 0 ? 1 : ceil_div(at_once, int64_t(run))) / multiprocessors_);
    if (Shape::kShallow && args_.k > 8 && busiest <= Shape::kBlocks && is_k_major(a_) && is_k_major(b_) &&
        stores_directly())
      return INFINITY;
    const double depth = double(run == 0 ? args_.k : std::min(args_.k, run * kProductChunk));
    const bool singly = std::is_same_v<Shape, SmallTile> && !copies_vectors(a_) && !copies_vectors(b_);
    // Blocks come in waves. The last one takes as long as one of kFill blocks.
    const double last = std::fmod(busiest, Shape::kBlocks);
    const double as_busy = busiest + (last > 0 ? std::max(Shape::kFill - last, 0.) : 0);
    const double edge = checks_edges<Shape, Shape::kM>(a_) || checks_edges<Shape, Shape::kN>(b_) ? kEdgeRate : 1;
    const double rate = edge * (singly ? kSingleRate : 1) * Shape::kRate / 100. * busiest / as_busy;
    const bool direct = stores_directly(adds_vectors<P, Shape>(args_.parts > 1));
    const auto round_of = [&](double out_byte, double start) {
      const double of_result = depth / rate + out_byte * sizeof(P) * std::max(1., Shape::kBlocks / busiest);
      return busiest * (Shape::kM * Shape::kN * of_result + start);
    };
    if constexpr (Shape::kShallow) {
      const bool is_slow = std::is_same_v<Shape, LowShallowTile> && (2 * args_.n < Shape::kN || is_k_major(b_));
      return (is_slow ? kSlowLow : 1) * round_of(Shape::kOutByte / 10., kShallowStart);
    }
    const double large = Shape::kM * Shape::kN > 8192 ? kLargeOut : 1;
    const double round = round_of(direct ? direct_byte(sizeof(P), args_.k) : large * kOutByte,
                                  Shape::kTensor ? kTensorStart : kBlockStart) +
                         kStepStart * depth;
    if (run == 0) return round;
    const double bytes = double(args_.batch) * args_.m * args_.n * chunks_ * sizeof(P);
    return double(chunks_) / at_once * (round + kFoldLaunch) + kFoldByte * bytes / multiprocessors_;
  }

  template <class Shape>
  static constexpr size_t most_bytes() {
    if constexpr (Shape::kTensor) {
      return TensorStages<Shape>::kBytes + TensorStages<Shape>::kTotalBytes;
    } else if constexpr (Shape::kShallow) {
      return ShallowTileSizes<T, Shape>::bytes(kMostShallowTileDepth);
    } else {
      using Padded = TileSizes<T, Shape, Layout::k_major, Layout::k_major>;
      using OnePadded = TileSizes<T, Shape, Layout::k_major, Layout::mn_major>;
      return std::max(Padded::kStageBytes, OnePadded::kStageBytes) + Padded::kTotalBytes;
    }
  }

  template <class Shape>
  void tiles() {
    if constexpr (Shape::kTensor) {
      with_major(a_, [&](auto k_major_a) {
        with_major(b_, [&](auto k_major_b) {
          this->template with_parts<Shape>([&](auto in_parts) {
            const bool in_pairs = in_vectors(a_) && in_vectors(b_);
            start_tiles<Shape>(in_pairs ? multiply_tensor_tiles<T, Shape, k_major_a, k_major_b, in_parts, true>
                                        : multiply_tensor_tiles<T, Shape, k_major_a, k_major_b, in_parts, false>,
                               TensorStages<Shape>::kBytes, TensorStages<Shape>::kTotalBytes);
          });
        });
      });
    } else if constexpr (Shape::kShallow) {
      ShallowTileJob<T> job{args_, a_, b_, copies_vectors(a_), copies_vectors(b_), 0, 0};
      job.tiles_m = unsigned(ceil_div(args_.m, int64_t(Shape::kM)));
      job.tiles_n = unsigned(ceil_div(args_.n, int64_t(Shape::kN)));
      launch(multiply_shallow_tile<T, Shape>, args_.batch * job.tiles_m * job.tiles_n, Shape::kThreads,
             ShallowTileSizes<T, Shape>::bytes(int(args_.k)), context_.stream, job);
    } else {
      constexpr bool kVectors = std::is_same_v<T, float> && !kIsPlain<Shape>;
      with_layout<kVectors, false>(a_, [&](auto layout_a) {
        with_layout<kVectors, false>(b_, [&](auto layout_b) {
          this->template with_parts<Shape>([&](auto in_parts) {
            constexpr bool kHasVectors = layout_a() == Layout::mn_major_vec || layout_b() == Layout::mn_major_vec;
            if constexpr (!kIsLarge<Shape> || !in_parts() || kHasVectors) {
              using Sizes = TileSizes<T, Shape, layout_a, layout_b>;
              start_tiles<Shape>(multiply_tiles<T, Out, Shape, layout_a, layout_b, in_parts>, Sizes::kStageBytes,
                                 Sizes::kTotalBytes);
            }
          });
        });
      });
    }
  }

  template <class Shape>
  void start_tiles(void (*kernel)(TileJob<T>), size_t stage_bytes, size_t total_bytes) {
    TileJob<T> job{args_, a_, b_};
    job.tiles_m = unsigned(ceil_div(args_.m, int64_t(Shape::kM)));
    job.tiles_n = unsigned(ceil_div(args_.n, int64_t(Shape::kN)));
    // The tiles that run at the same time form an area about as high as it is wide.
    const double resident = double(multiprocessors_) * Shape::kBlocks;
    const auto high = unsigned(std::max(1., std::round(std::sqrt(resident * Shape::kN / Shape::kM))));
    job.group = std::min(high, job.tiles_m);
    const int64_t blocks = args_.batch * job.tiles_m * job.tiles_n;
    const auto start = [&](int64_t pieces) {
      const bool has_totals = !job.direct || (job.partials == nullptr && chunks_ > 1);
      const size_t bytes = stage_bytes + has_totals * total_bytes;
      launch(kernel, blocks * pieces, Shape::kThreads, bytes, context_.stream, job);
    };
    if (run_ == 0) {
      job.first = 0, job.last = job.run = chunks_, job.partials = nullptr;
      job.direct = stores_directly(adds_vectors<P, Shape>(args_.parts > 1));
      if (args_.parts == 1) return start(1);
      job.parts = unsigned(args_.parts), job.part = int(ceil_div(args_.k, int64_t(args_.parts)));
      job.tiles = unsigned(blocks);
      const int64_t resident = std::min(blocks, int64_t(multiprocessors_) * Shape::kBlocks);
      const size_t waiting = size_t(std::bit_width(job.parts - 1)) * resident * Shape::kM * Shape::kN * sizeof(P);
      job.waiting = static_cast<P*>(context_.workspace(waiting));
      return launch(kernel, resident, Shape::kThreads, stage_bytes + total_bytes, context_.stream, job);
    }
    job.run = run_, job.direct = is_wide();
    multiply_split_k<P, Out>(args_, context_, chunks_, partials_at_once(run_),
                             [&](int64_t first, int64_t count, P* partials) {
                               job.first = first, job.last = first + count, job.partials = partials;
                               start(ceil_div(count, int64_t(run_)));
                             });
  }

  // As many partials as fit the workspace, in whole runs.
  int64_t partials_at_once(int64_t run) const {
    return std::max(int64_t(1), matmul::partials_at_once(args_, sizeof(P), multiprocessors_) / run) * run;
  }

  static constexpr int kMostRun = 16;

  const MatmulArgs& args_;
  Context& context_;
  const int multiprocessors_;
  const int64_t chunks_;
  const Operand<T> a_, b_;
  void (ProductPlan::*tiles_)() = nullptr;  // of the shape that was chosen
  int run_ = 0;
};

}  // namespace torch_reductions::cuda::matmul
