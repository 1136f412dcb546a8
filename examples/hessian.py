"""Second derivatives: Newton's method with a Hessian, and with products alone.

Run it: python examples/hessian.py
"""

import numpy as np

import sweepgrad as sg


def rosenbrock(x):
    """Σ 100 (xᵢ₊₁ - xᵢ²)² + (1 - xᵢ)²; its minimum 0 is at (1, …, 1)."""
    head, tail = x[:-1], x[1:]
    return (100.0 * (tail - head**2) ** 2 + (1.0 - head) ** 2).sum()


def newton(x: np.ndarray, steps: int = 30) -> np.ndarray:
    """Newton's method: solve H d = -g, halve the step until the value falls."""
    gradient, hessian = sg.value_and_grad(rosenbrock), sg.hessian(rosenbrock)
    for step in range(steps):
        value, g = gradient(x)
        if np.linalg.norm(g) < 1e-10:
            print(f"Newton: {step} steps, value {float(value):.1e}")
            break
        direction = np.linalg.solve(hessian(x), -g)
        length = 1.0
        while float(gradient(x + length * direction)[0]) > value and length > 1e-6:
            length /= 2
        x = x + length * direction
    return x


def conjugate_gradients(point: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve H d = b at a point by Hessian-vector products; the Hessian is never formed."""
    product = sg.hessian_vector_product(rosenbrock)
    solution, residual = np.zeros_like(b), b.copy()
    direction = residual.copy()
    for _ in range(4 * b.size):
        image = product(point, direction)
        rate = residual @ residual / (direction @ image)
        solution += rate * direction
        following = residual - rate * image
        if np.linalg.norm(following) < 1e-12 * np.linalg.norm(b):
            break
        direction = following + (following @ following / (residual @ residual)) * direction
        residual = following
    return solution


def main() -> None:
    start = np.array([-1.2, 1.0, 0.7])
    minimum = newton(start)
    np.testing.assert_allclose(minimum, 1.0, rtol=1e-8)

    b = np.array([1.0, -2.0, 3.0])
    direct = np.linalg.solve(sg.hessian(rosenbrock)(minimum), b)
    np.testing.assert_allclose(conjugate_gradients(minimum, b), direct, rtol=1e-6)
    print("conjugate gradients on Hessian-vector products agree with the full Hessian")

    slope = sg.jvp(sg.jacobian(rosenbrock, create_graph=True), start, b)[1]
    np.testing.assert_allclose(slope, sg.hessian(rosenbrock)(start) @ b, rtol=1e-10)
    print("the derivative of the gradient along b is the Hessian times b")


if __name__ == "__main__":
    main()
