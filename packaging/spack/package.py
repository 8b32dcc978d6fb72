# A package for Spack: `spack repo create tacit-repo`, this file there as packages/tacit_solvers/package.py, and
# `spack repo add tacit-repo`. The sources are those of a checkout: `spack dev-build tacit-solvers@main` in its folder.
# Checked as Python only (tests/python/test_packaging.py): it has not been built.
from spack.package import *


class TacitSolvers(CMakePackage, PythonExtension):
    """Krylov methods and operators that communicate less: large linear systems on machines where moving data costs more
    than computing with it."""

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="Ranks as MPI processes")
    variant("openmp", default=True, description="Threads within a rank")
    variant("python", default=True, description="The Python module and the command line")
    variant("metis", default=True, description="Graph partitions by METIS")
    variant("amd", default=True, description="The minimum degree ordering by AMD")
    variant("eigen", default=True, description="The sparse direct solver of Eigen")
    variant("hwloc", default=True, description="Sockets and NUMA domains by hwloc")
    variant("applications", default=True, description="H-matrices, boundary elements, tomography, networks")
    variant("cuda", default=False, description="Kernels for NVIDIA GPUs")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("blas")
    depends_on("lapack")
    depends_on("zlib-api")
    depends_on("mpi", when="+mpi")
    depends_on("metis", when="+metis")
    depends_on("suite-sparse", when="+amd")
    depends_on("eigen@3.4:", when="+eigen", type="build")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("cuda@12.4:", when="+cuda")

    extends("python@3.11:", when="+python")
    with when("+python"):
        depends_on("py-nanobind@2.4:", type="build")
        depends_on("py-numpy@1.26:", type=("build", "run"))
        depends_on("py-scipy@1.11:", type=("build", "run"))
        depends_on("py-rich@13:", type=("build", "run"))
        depends_on("py-argcomplete@3.5:", type=("build", "run"))

    conflicts("%gcc@:11", msg="Tacit needs g++ 12 or newer")
    conflicts("%clang@:15", msg="Tacit needs clang 16 or newer")

    generator("ninja")

    def cmake_args(self):
        parts = ("mpi", "openmp", "python", "metis", "amd", "eigen", "hwloc", "applications", "cuda")
        args = [self.define_from_variant(f"TACIT_{part.upper()}", part) for part in parts]
        # Spack's compiler wrapper sets the processor.
        args += [self.define("TACIT_NATIVE", False), self.define("TACIT_PYTHON_LINK", False)]
        if self.spec.satisfies("+python"):
            args.append(self.define("Python_EXECUTABLE", self.spec["python"].command.path))
        return args

    @run_after("install", when="+python")
    def install_python(self):
        """The package beside its compiled module, and the command."""
        package = join_path(python_platlib, "tacit")
        install_tree(join_path(self.stage.source_path, "python", "tacit"), package)
        for module in find(join_path(self.build_directory, "python", "tacit"), "_core*"):
            install(module, package)
        command = join_path(self.prefix.bin, "tacit")
        mkdirp(self.prefix.bin)
        python = self.spec["python"].command.path
        with open(command, "w") as file:
            file.write(f"#!{python}\nimport sys\nfrom tacit.cli import main\n\nsys.exit(main())\n")
        set_executable(command)
